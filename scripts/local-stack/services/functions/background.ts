export type BackgroundTasks = {
  /** Keeps the process alive for work that goes on after the answer. */
  waitUntil: (work: Promise<unknown>) => void;
  /** Waits until no work is left, also such as other work began; at most so long. @returns how much was left */
  drain: (limitMs: number) => Promise<number>;
};

/** The work that functions have handed to `EdgeRuntime.waitUntil`. A failure is reported, and harms nothing else. */
export function createBackgroundTasks(report: (error: unknown) => void): BackgroundTasks {
  const running = new Set<Promise<unknown>>();
  return {
    waitUntil(work) {
      const task = Promise.resolve(work)
        .catch(report)
        .finally(() => running.delete(task));
      running.add(task);
    },
    async drain(limitMs) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      let expired = false;
      const limit = new Promise<void>((resolve) => {
        timer = setTimeout(() => {
          expired = true;
          resolve();
        }, limitMs);
      });
      while (running.size > 0 && !expired) await Promise.race([Promise.all(running), limit]);
      clearTimeout(timer);
      return running.size;
    },
  };
}
