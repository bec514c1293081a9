VERSION = 3


def version_of(facts):
    return VERSION


def is_present(facts):
    return VERSION >= 3
