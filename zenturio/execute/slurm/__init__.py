"""
A cluster under Slurm as a place: experiments are the tasks of job arrays.

Everything that a job needs and leaves lies in a folder that the nodes see (see session), so that
a driver that died is no loss: the next one finds what runs, and what has ended, by digest.
"""
