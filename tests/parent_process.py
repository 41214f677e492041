"""The process that started an experiment's shell, in the words of that shell."""

PARENT = (
    "until read _ _ _ parent _ < /proc/$$/stat; read name < /proc/$parent/comm && "
    "test $name != setsid; do :; done 2> /dev/null"
)
"""Sets ``$parent`` to the launcher, or to the supervisor at a host.

``$PPID`` may be setsid(1), which starts commands, and has often ended when it is used.
"""
