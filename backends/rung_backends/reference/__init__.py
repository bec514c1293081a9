"""The numpy answers: last rung of every ladder, and what every other kernel is compared with."""
