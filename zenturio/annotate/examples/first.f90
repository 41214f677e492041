! The area under 4 / (1 + x^2) from 0 to 1 is pi: how good is the midpoint rule?
!ZEN$ SUBSTITUTE 1000 = { 10:10000:*10 } AS n TYPE int
!ZEN$ PARAM      level = { O0, O2 }
!ZEN$ BUILD "gfortran -{level} first.f90 -o first"
!ZEN$ RUN   "./first" TIMEOUT 30s
!ZEN$ METRIC error FROM stdout REGEX "error = *(\S+)"
!ZEN$ OBJECTIVE MINIMIZE error
program area
  implicit none
  integer, parameter :: n = 1000
  integer :: i
  double precision :: x, total
  total = 0d0
  do i = 0, n - 1
    x = (i + 0.5d0) / n
    total = total + 4d0 / (1d0 + x * x)
  end do
  print '(a, f17.15)', 'pi = ', total / n
  print '(a, es10.3)', 'error = ', abs(total / n - acos(-1d0))
end program area
