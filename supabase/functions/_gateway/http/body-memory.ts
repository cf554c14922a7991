import { overloadError } from "./errors.ts";
import { startTimeLimit } from "./time-limit.ts";

/** How long a body waits for memory at most. */
const maxWaitMs = 10_000;
/** After this time, other bodies no longer overtake a body that doesn't fit. */
const maxOvertakenMs = 5_000;
/** The maximum number of waiting bodies, for each workspace and in total. */
const maxWaitingEach = 200;
const maxWaitingAll = 1_000;
/** A workspace that has some memory gets no more than this part of it. */
const workspacePart = 3 / 4;

/** The memory of one body, until `release`. */
export type MemoryGrant = {
  /** Returns the memory beyond `bytes`. */
  shrink: (bytes: number) => void;
  /**
   * Waits until the grant has `bytes` again. Takes precedence over new bodies. The first grant to grow gets its memory
   * even if too little is left, so that grants never wait for each other.
   * @throws GatewayError `service_unavailable` after ten seconds; the signal's reason if the client disconnects
   */
  grow: (bytes: number, signal: AbortSignal) => Promise<void>;
  /** Returns the memory. Later calls do nothing. */
  release: () => void;
};

/** The memory that the bodies of an isolate share. */
export type BodyMemory = {
  totalBytes: number;
  /**
   * Waits for memory. Workspaces take turns.
   * @throws GatewayError `service_unavailable` if too many bodies wait, or after ten seconds; the signal's reason if the
   * client disconnects
   */
  grant: (bytes: number, options: { workspace: string; signal: AbortSignal }) => Promise<MemoryGrant>;
};

type Waiting = { bytes: number; since: number; start: () => void };
type Workspace = { used: number; waiting: Waiting[] };

/** What a process needs for its code and its calls, without their bodies. */
const processBytes = 128_000_000;

/** The memory of this isolate. On the local stack, all functions share one. */
let ofIsolate: { limitBytes: number; memory: BodyMemory } | undefined;

/**
 * Returns the memory that bodies may use in a process with a memory limit: half of what its other needs leave, because
 * garbage collection frees a released body only later.
 */
export function getBodyMemory(limitBytes: number): BodyMemory {
  if (ofIsolate?.limitBytes !== limitBytes) {
    ofIsolate = { limitBytes, memory: createBodyMemory((limitBytes - processBytes) / 2) };
  }
  return ofIsolate.memory;
}

/** Returns the memory that waiting calls may use, in addition to that of large bodies. */
export function getWaitingBytes(limitBytes: number): number {
  return (limitBytes - processBytes) / 4;
}

export function createBodyMemory(totalBytes: number): BodyMemory {
  let used = 0;
  let waitingBodies = 0;
  /** Workspaces that have memory or wait for it, the least recently served first. */
  const workspaces = new Map<string, Workspace>();
  const growing: Waiting[] = [];
  /** The number of grants that have grown and have not shrunk since. */
  let grown = 0;

  /** Starts the waiting bodies that fit. */
  function serve(): void {
    for (let next = growing[0]; next; next = growing[0]) {
      if (grown > 0 && used + next.bytes > totalBytes) return;
      growing.shift();
      next.start();
    }
    while (serveRound());
  }

  /** Starts at most one body of each workspace. Returns whether it started any. */
  function serveRound(): boolean {
    let hasStarted = false;
    for (const [name, workspace] of [...workspaces]) {
      const next = workspace.waiting[0];
      if (!next) continue;
      const hasRoom = workspace.used === 0 || workspace.used + next.bytes <= totalBytes * workspacePart;
      if (!hasRoom) continue;
      if (used + next.bytes > totalBytes) {
        if (performance.now() - next.since > maxOvertakenMs) return false;
        continue;
      }
      workspace.waiting.shift();
      workspaces.delete(name);
      workspaces.set(name, workspace);
      next.start();
      hasStarted = true;
    }
    return hasStarted;
  }

  /** Adds a body to a queue. It leaves the queue when `start` is called, after ten seconds, or with its client. */
  function wait(
    queue: Waiting[],
    { bytes, signal, start }: { bytes: number; signal: AbortSignal; start: () => void },
  ): Promise<void> {
    signal.throwIfAborted();
    // The number of grants limits how many of them wait.
    const isNew = queue !== growing;
    if (isNew && (waitingBodies >= maxWaitingAll || queue.length >= maxWaitingEach)) throw overloadError();
    return new Promise((resolve, reject) => {
      function end(): void {
        limit.end();
        signal.removeEventListener("abort", leave);
        waitingBodies -= 1;
      }
      const waiting: Waiting = {
        bytes,
        since: performance.now(),
        start() {
          end();
          start();
          resolve();
        },
      };
      function refuse(reason: unknown): void {
        queue.splice(queue.indexOf(waiting), 1);
        end();
        reject(reason);
        // The bodies behind this one may fit.
        serve();
      }
      const leave = () => refuse(signal.reason);
      const limit = startTimeLimit(maxWaitMs, () => refuse(overloadError()));
      signal.addEventListener("abort", leave);
      waitingBodies += 1;
      queue.push(waiting);
      serve();
    });
  }

  function workspaceOf(name: string): Workspace {
    const workspace = workspaces.get(name) ?? { used: 0, waiting: [] };
    workspaces.set(name, workspace);
    return workspace;
  }

  function forgetIdle(name: string): void {
    const workspace = workspaces.get(name);
    if (workspace?.used === 0 && workspace.waiting.length === 0) workspaces.delete(name);
  }

  function createGrant(name: string): MemoryGrant & { resize: (bytes: number) => void } {
    const workspace = workspaceOf(name);
    let size = 0;
    let hasGrown = false;
    let isReleased = false;
    function resize(bytes: number): void {
      used += bytes - size;
      workspace.used += bytes - size;
      size = bytes;
    }
    function shrink(bytes: number): void {
      if (hasGrown) grown -= 1;
      hasGrown = false;
      resize(Math.min(size, bytes));
      serve();
    }
    return {
      resize,
      shrink,
      async grow(bytes, signal) {
        if (isReleased || bytes <= size) return;
        const start = () => {
          if (isReleased) return;
          resize(bytes);
          hasGrown = true;
          grown += 1;
        };
        await wait(growing, { bytes: bytes - size, signal, start });
      },
      release() {
        if (isReleased) return;
        isReleased = true;
        shrink(0);
        forgetIdle(name);
      },
    };
  }

  return {
    totalBytes,
    async grant(bytes, { workspace: name, signal }) {
      const grant = createGrant(name);
      try {
        await wait(workspaceOf(name).waiting, { bytes, signal, start: () => grant.resize(bytes) });
      } catch (error) {
        forgetIdle(name);
        throw error;
      }
      return grant;
    },
  };
}
