from subprocess import run

__all__ = ["run"]
