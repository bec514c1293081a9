def build_dit(spec, instance):
    return object()


def build(spec, instance, platform):
    return object()
