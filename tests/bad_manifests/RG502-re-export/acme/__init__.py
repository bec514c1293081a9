from .kernels import flow_match_step, flow_match_step_v2
