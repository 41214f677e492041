// Primes below n by the segmented sieve of Eratosthenes: a segment should fit the cache.
//
//ZEN$ PARAM level = { 1, 2, 3, s }
//ZEN$ PARAM n = { 10000000, 100000000 }
//ZEN$ SUBSTITUTE 32_768 = { 2048:2097152:*4 } AS segment UNIT "B"
//ZEN$ CONSTRAINT VALUE segment ** 2 >= n
//ZEN$ BUILD "rustc -C opt-level={level} sieve.rs"
//ZEN$ RUN "./sieve {n}" MEMORY 64MB
//ZEN$ METRIC milliseconds FROM stdout REGEX "in (\S+) ms" UNIT "ms"
//ZEN$ METRIC primes FROM stdout REGEX "(\d+) primes"
//ZEN$ METRIC rate := n / milliseconds / 1000 UNIT "M/s"
//ZEN$ OBJECTIVE MAXIMIZE rate
use std::time::Instant;

const SEGMENT: usize = 32_768;

/// The primes up to `limit`, by the plain sieve.
fn small_primes(limit: usize) -> Vec<usize> {
    let mut composite = vec![false; limit + 1];
    let mut primes = Vec::new();
    for p in 2..=limit {
        if !composite[p] {
            primes.push(p);
            for multiple in (p * p..=limit).step_by(p) {
                composite[multiple] = true;
            }
        }
    }
    primes
}

fn count_primes(n: usize) -> usize {
    let root = (n as f64).sqrt() as usize + 1;
    let primes = small_primes(root);
    let mut next: Vec<usize> = primes.iter().map(|p| p * p).collect();
    let mut sieve = [false; SEGMENT];
    let mut count = 0;

    for low in (0..n).step_by(SEGMENT) {
        let high = (low + SEGMENT).min(n);
        sieve.fill(false);
        for (p, at) in primes.iter().zip(next.iter_mut()) {
            while *at < high {
                sieve[*at - low] = true;
                *at += p;
            }
        }
        let first = if low == 0 { 2 } else { 0 };
        count += sieve[first..high - low].iter().filter(|c| !**c).count();
    }
    count
}

fn main() {
    let n = std::env::args().nth(1).map_or(10_000_000, |word| word.parse().expect("a number"));
    let start = Instant::now();
    let count = count_primes(n);
    let elapsed = start.elapsed().as_secs_f64() * 1e3;
    println!("{count} primes below {n} in {elapsed:.3} ms");
}
