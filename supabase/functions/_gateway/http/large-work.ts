let last: Promise<void> = Promise.resolve();

/**
 * Runs work on a large body, after any such work of other calls. Then other calls and the garbage collector get
 * half the time of the work before the next work begins.
 */
export async function runInTurn<Result>(work: () => Result): Promise<Result> {
  const previous = last;
  let end = () => {};
  last = new Promise((resolve) => {
    end = resolve;
  });
  await previous;
  const startedAt = performance.now();
  try {
    return work();
  } finally {
    setTimeout(end, (performance.now() - startedAt) / 2);
  }
}
