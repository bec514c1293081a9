import os


def has_license(facts):
    return bool(os.environ["ACME_LICENSE"])


def is_present(facts):
    return bool(facts.env("ACME_LICENSE"))
