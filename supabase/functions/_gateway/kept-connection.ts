import type pg from "pg";

/** Between two looks at whether it is still needed, in milliseconds. */
const lookMs = 1_000;

/** A connection that was taken, and what gives it back, or closes it. */
export type Taken = { client: pg.PoolClient; release: (isClosed: boolean) => void };

/** Takes a connection from a pool. */
export async function takeFrom(pool: pg.Pool): Promise<Taken> {
  const client = await pool.connect();
  return { client, release: (isClosed) => client.release(isClosed) };
}

/** A connection of a pool that is kept at hand. */
export type KeptConnection = {
  /** It, or another of the pool while it is in use. */
  take: () => Promise<Taken>;
  /** Lets the pool have it where it has no other that is free for who is about to ask. */
  lend: () => void;
  /** Gives it back for good. */
  close: () => void;
};

/**
 * Keeps a connection at hand for statements that come one after another, each by itself: the pool sets two timers for
 * each that it hands out, and of two server processes that take turns each has its caches cold. It goes back to the pool
 * once nobody has needed it for a second.
 */
export function keepConnection(pool: pg.Pool): KeptConnection {
  let kept: pg.PoolClient | undefined;
  let isTaken = false;
  let wasNeeded = false;
  /** It ended, or failed by itself, while somebody had it. */
  let isOver = false;
  let isEnding = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  /** Keeps it no longer. @param isGone whether it is closed, too */
  function letGo(isGone: boolean): void {
    const former = kept;
    kept = undefined;
    former?.off("error", noteEnd).off("end", noteEnd).release(isGone);
  }

  function giveBack(): void {
    if (!isTaken) letGo(false);
  }

  /** While it is at hand nobody else would notice. */
  function noteEnd(): void {
    if (isTaken) isOver = true;
    else letGo(true);
  }

  function look(): void {
    timer = undefined;
    if (!wasNeeded) giveBack();
    wasNeeded = false;
    if (kept) timer = setTimeout(look, lookMs);
  }

  /** Takes one from the pool to keep. */
  async function keep(): Promise<pg.PoolClient> {
    const client = await pool.connect();
    // The server says that it is over before it closes it.
    client.once("error", noteEnd).once("end", noteEnd);
    kept = client;
    isOver = false;
    if (!isEnding) timer ??= setTimeout(look, lookMs);
    return client;
  }

  return {
    async take() {
      if (isTaken || isEnding) return takeFrom(pool);
      isTaken = true;
      wasNeeded = true;
      try {
        const client = kept ?? (await keep());
        return {
          client,
          release(isBroken) {
            isTaken = false;
            if (isBroken || isOver) letGo(true);
            else if (isEnding || pool.waitingCount > 0) letGo(false);
          },
        };
      } catch (error) {
        isTaken = false;
        throw error;
      }
    },
    lend() {
      // Whoever waits has those that are free only once this turn is over.
      if (pool.idleCount <= pool.waitingCount) giveBack();
    },
    close() {
      isEnding = true;
      clearTimeout(timer);
      giveBack();
    },
  };
}
