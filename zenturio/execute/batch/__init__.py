"""
Clusters under a batch system as places: experiments are the tasks of job arrays.

Everything that a job needs and leaves lies in a folder that the nodes see (session_folder), so that
a driver that died is no loss: the next one finds what runs, and what has ended, by digest. What a
batch system has to bring is in system; Slurm and Grid Engine are one file each.
"""
