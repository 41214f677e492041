! Poisson's equation on the unit square by successive over-relaxation.
!
!   -(u_xx + u_yy) = 2 pi^2 sin(pi x) sin(pi y),  u = 0 on the boundary,
!
! whose solution is u = sin(pi x) sin(pi y). Too small an omega is slow, too large a one
! is slow again; the best for this problem is 2 / (1 + sin(pi h)).
!
!ZEN$ BUILD "gfortran -O2 -fdefault-real-8 poisson.f90 -o poisson"
!ZEN$ RUN "./poisson" TIMEOUT 1min
!ZEN$ METRIC sweeps FROM stdout REGEX "sweeps: +(\d+)"
!ZEN$ METRIC error  FROM stdout REGEX "error: +(\S+)"
!ZEN$ CONSTRAINT VALUE n <= 32 or omega >= 1.5
!ZEN$ OBJECTIVE MINIMIZE sweeps
program poisson
  implicit none
  real, parameter :: pi = acos(-1.0), tolerance = 1e-8
  integer, parameter :: limit = 100000
  real, allocatable :: u(:, :), f(:, :)
  real :: omega, h, change, largest
  integer :: n, i, j, sweeps

  n = 32
  omega = 1.5
  !ZEN$ ASSIGN n = { 16:64:*2 }
  !ZEN$ ASSIGN omega = { 1.0:1.9:0.1 }

  allocate (u(0:n, 0:n), f(0:n, 0:n))
  h = 1.0 / n
  u = 0
  do j = 0, n
    do i = 0, n
      f(i, j) = 2 * pi**2 * exact(i, j)
    end do
  end do

  do sweeps = 1, limit
    largest = 0
    do j = 1, n - 1
      do i = 1, n - 1
        change = (u(i-1, j) + u(i+1, j) + u(i, j-1) + u(i, j+1) + h**2 * f(i, j)) / 4 - u(i, j)
        u(i, j) = u(i, j) + omega * change
        largest = max(largest, abs(change))
      end do
    end do
    if (largest < tolerance) exit
  end do
  if (sweeps > limit) error stop "no convergence"

  print '(a, i0, a, f5.2)', 'n: ', n, '  omega: ', omega
  print '(a, i0)', 'sweeps: ', sweeps
  print '(a, es12.4)', 'error: ', maxval([((abs(u(i, j) - exact(i, j)), i = 0, n), j = 0, n)])

contains

  real function exact(i, j)
    integer, intent(in) :: i, j
    exact = sin(pi * i * h) * sin(pi * j * h)
  end function exact

end program poisson
