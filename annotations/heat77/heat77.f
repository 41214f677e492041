C     HEAT CONDUCTION IN A BAR BY THE THETA METHOD
C
C     U(T) = U(XX) ON (0,1), U = 0 AT BOTH ENDS, U(X,0) = SIN(PI X),
C     FOLLOWED TO T = 0.1.  THETA = 0 IS EXPLICIT, 1/2 IS CRANK AND
C     NICOLSON, 1 IS IMPLICIT.  THE STEPS IN SPACE AND TIME ARE REFINED
C     TOGETHER, SO THAT THE EXPLICIT METHOD REMAINS STABLE.
C
CZEN$ SUBSTITUTE 21 = { 11, 21, 41 } AS NX
CZEN$ CONSTRAINT INDEX NX == NT
CZEN$ BUILD "gfortran -O2 -std=legacy heat77.f -o heat77"
CZEN$ RUN "./heat77"
CZEN$ METRIC error FROM stdout
CZEN$&       REGEX "MAXIMAL ERROR\s+(\S+)"
CZEN$ METRIC order := -log(error) / log(NX - 1)
CZEN$ OBJECTIVE MINIMIZE error
C
      PROGRAM HEAT77
      INTEGER NX, NT, I, N
      PARAMETER (NX = 21)
      DOUBLE PRECISION U(NX), D(NX), R(NX)
      DOUBLE PRECISION PI, THETA, DX, DT, S, E, X
      PI = 4.0D0*ATAN(1.0D0)
C
      NT = 80
CZEN$ ASSIGN NT = { 20:320:*4 }
CZEN$ SUBSTITUTE "0.5D0" = { {0:1:0.5}D0 } AS THETA BEGIN
      THETA = 0.5D0
CZEN$ END
C
      DX = 1.0D0/(NX - 1)
      DT = 0.1D0/NT
      S = DT/DX**2
      DO 10 I = 1, NX
        U(I) = SIN(PI*(I - 1)*DX)
   10 CONTINUE
      U(NX) = 0.0D0
C
C     EACH STEP SOLVES A TRIDIAGONAL SYSTEM BY THOMAS' ALGORITHM
C
      DO 50 N = 1, NT
        DO 20 I = 2, NX - 1
          R(I) = U(I) + (1.0D0 - THETA)*S*(U(I-1) - 2.0D0*U(I) + U(I+1))
   20   CONTINUE
        D(2) = 1.0D0 + 2.0D0*THETA*S
        DO 30 I = 3, NX - 1
          E = THETA*S/D(I-1)
          D(I) = 1.0D0 + 2.0D0*THETA*S - E*THETA*S
          R(I) = R(I) + E*R(I-1)
   30   CONTINUE
        U(NX-1) = R(NX-1)/D(NX-1)
        DO 40 I = NX - 2, 2, -1
          U(I) = (R(I) + THETA*S*U(I+1))/D(I)
   40   CONTINUE
   50 CONTINUE
C
      E = 0.0D0
      DO 60 I = 1, NX
        X = SIN(PI*(I - 1)*DX)*EXP(-0.1D0*PI**2)
        E = MAX(E, ABS(U(I) - X))
   60 CONTINUE
      WRITE (*, 70) NX, NT, THETA, E
   70 FORMAT (' NX', I6, '  NT', I6, '  THETA', F5.2/
     &        ' MAXIMAL ERROR', E12.4)
      END
