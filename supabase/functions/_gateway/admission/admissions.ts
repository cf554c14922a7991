import { setImmediate } from "node:timers";
import { GatewayError } from "../http/errors.ts";
import { startTimeLimit } from "../time-limit.ts";

/** Calls in one batch. */
const maxTogether = 32;
/** Batches under way at once: one, and another beside one that has taken longer than this, in milliseconds. */
const maxUnderWay = 2;
const lateMs = 10;
/**
 * As many as wait are asked about before the last batch's answers are handed on, or behind it where they are no fewer;
 * fewer may be more by then.
 */
const several = 4;
/** Calls that are asked about each alone, at once: settlements and batches need connections too. */
const maxAlone = 4;
/** Whoever has waited longer is not asked about alone any more. */
const aloneWithinMs = 2_000;
/** Calls that may wait before further ones are turned away. */
const maxWaiting = 500;

type Waiting<Request, Answer> = {
  request: Request;
  since: number;
  resolve: (answer: Answer | Promise<Answer>) => void;
  reject: (error: unknown) => void;
};

/** A batch that is being asked about. */
type Flight = {
  size: number;
  /** What hands its answers on. Never rejects. */
  answered: Promise<() => void>;
  /** The one that was sent behind it. */
  behind?: Flight;
};

/**
 * Asks about calls: those that come in one turn of the event loop together, and those that come while others are asked
 * about. To start a batch takes longer than what it does, so that there is one at a time, and each call waits for at most
 * one other's answer; unless a batch is late, for a lock or the disk, which holds up those after it no further. Once as
 * many wait as a batch has, they are sent behind it, so that the database goes on without waiting for this process; they
 * alone wait on should it be late after all. One that cannot be asked about takes none of the others with it.
 * @param options.mayFollow whether a batch may be sent behind the last one, which is under way
 * @param options.askBehind sends it there
 * @param options.wasUndone whether an error of `askTogether` says that nothing was done: then each is asked about alone
 * @param options.isApart whether a request is asked about alone, since it may wait for its like and nobody else shall
 * @throws GatewayError `service_unavailable` where too many wait, or one waited too long
 */
export function createAdmissions<Request, Answer>(options: {
  askAlone: (request: Request) => Promise<Answer>;
  askTogether: (requests: readonly Request[]) => Promise<readonly Answer[]>;
  mayFollow?: () => boolean;
  askBehind?: (requests: readonly Request[]) => Promise<readonly Answer[]>;
  wasUndone: (error: unknown) => boolean;
  isApart?: (request: Request) => boolean;
  now?: () => number;
}): (request: Request) => Promise<Answer> {
  const { askTogether, askBehind = askTogether, isApart = () => false, now = () => performance.now() } = options;
  const waiting: Waiting<Request, Answer>[] = [];
  const apart: Waiting<Request, Answer>[] = [];
  let underWay = 0;
  let late = 0;
  /** The last batch that was begun, while it is under way. */
  let last: Flight | undefined;
  let isStarting = false;
  let alone = 0;

  const mayStart = () => underWay <= late && underWay < maxUnderWay;

  /** One alone may wait for a lock much longer than a batch, and has none behind it. */
  const mayFollow = () =>
    last !== undefined &&
    last.behind === undefined &&
    last.size > 1 &&
    underWay === 1 &&
    late === 0 &&
    waiting.length >= Math.max(several, last.size) &&
    options.mayFollow?.() === true;

  /** Whoever's request has arrived by now is read before the turn ends: one statement for all of them, not one for the first. */
  function next(): void {
    if (isStarting || waiting.length === 0 || !(mayStart() || mayFollow())) return;
    isStarting = true;
    setImmediate(() => {
      isStarting = false;
      start();
    });
  }

  function start(): void {
    if (mayStart()) watch(take(askTogether));
    else if (last && mayFollow()) last.behind = take(askBehind);
  }

  function take(askMany: typeof askTogether): Flight {
    const batch = waiting.splice(0, maxTogether);
    return { size: batch.length, answered: ask(batch, askMany) };
  }

  function watch(flight: Flight): void {
    let isLate = false;
    underWay += 1;
    last = flight;
    const limit = startTimeLimit(lateMs, () => {
      isLate = true;
      late += 1;
      next();
    });
    void flight.answered.then((handOn) => {
      limit.end();
      underWay -= 1;
      if (isLate) late -= 1;
      if (last === flight) last = undefined;
      if (flight.behind) watch(flight.behind);
      // What answered calls do next takes this process for as long as the database takes for a batch.
      if (waiting.length >= several && !isStarting) start();
      next();
      handOn();
    });
  }

  function nextAlone(): void {
    while (alone < maxAlone) {
      const each = apart.shift();
      if (!each) return;
      if (now() - each.since > aloneWithinMs) {
        each.reject(new GatewayError("service_unavailable"));
        continue;
      }
      alone += 1;
      const answered = options.askAlone(each.request).finally(() => {
        alone -= 1;
        nextAlone();
      });
      each.resolve(answered);
    }
  }

  /** Never rejects. @returns what hands the answers on */
  async function ask(batch: readonly Waiting<Request, Answer>[], askMany: typeof askTogether): Promise<() => void> {
    const [first] = batch;
    try {
      if (first && batch.length === 1) {
        const answer = await options.askAlone(first.request);
        return () => first.resolve(answer);
      }
      const answers = await askMany(batch.map(({ request }) => request));
      return () => {
        for (const [place, { resolve }] of batch.entries()) resolve(answers[place] as Answer);
      };
    } catch (error) {
      return () => {
        if (batch.length > 1 && options.wasUndone(error)) {
          // Whoever waits for a lock of its own does so beside the others.
          apart.push(...batch);
          nextAlone();
        } else for (const { reject } of batch) reject(error);
      };
    }
  }

  return (request) => {
    const queue = isApart(request) ? apart : waiting;
    if (queue.length >= maxWaiting) return Promise.reject(new GatewayError("service_unavailable"));
    return new Promise((resolve, reject) => {
      queue.push({ request, since: now(), resolve, reject });
      if (queue === apart) nextAlone();
      else next();
    });
  };
}
