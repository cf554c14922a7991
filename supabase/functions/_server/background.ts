export type BackgroundTasks = {
  /** Keeps the process alive for work that continues after the response. */
  waitUntil: (work: Promise<unknown>) => void;
  /**
   * Waits at most `limitMs` until no work is left, including work that other work started. @returns the number of tasks
   * left
   */
  drain: (limitMs: number) => Promise<number>;
};

/** Tracks the work that functions pass to `EdgeRuntime.waitUntil`. A failure is reported and affects nothing else. */
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
