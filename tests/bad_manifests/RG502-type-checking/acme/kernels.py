from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acme.solver import flow_match_step
