// The area under 4 / (1 + x^2) from 0 to 1 is pi: how good is the midpoint rule?
//ZEN$ SUBSTITUTE 1000 = { 10:10000:*10 } AS n TYPE int
//ZEN$ RUN "node first.js" TIMEOUT 30s
//ZEN$ METRIC error FROM stdout REGEX "error = (\S+)"
//ZEN$ OBJECTIVE MINIMIZE error
const n = 1000;
let sum = 0;
for (let i = 0; i < n; i++) {
  const x = (i + 0.5) / n;
  sum += 4 / (1 + x * x);
}
console.log(`pi = ${(sum / n).toFixed(15)}`);
console.log(`error = ${Math.abs(sum / n - Math.PI).toExponential(3)}`);
