import { GatewayError } from "./errors.ts";

/** Batches under way at once, and calls in one. */
const maxUnderWay = 2;
const maxTogether = 32;
/** Calls that may wait before further ones are turned away. */
const maxWaiting = 500;

type Waiting<Request, Answer> = {
  request: Request;
  resolve: (answer: Answer | Promise<Answer>) => void;
  reject: (error: unknown) => void;
};

/**
 * Asks about calls: one by itself while nobody else asks, and those that come meanwhile together, so that at any load
 * each waits for at most two others' answers. One that cannot be asked about takes none of the others with it.
 * @param options.wasUndone whether an error of `askTogether` says that nothing was done: then each is asked about alone
 * @throws GatewayError `service_unavailable` where too many wait
 */
export function createAdmissions<Request, Answer>(options: {
  askAlone: (request: Request) => Promise<Answer>;
  askTogether: (requests: readonly Request[]) => Promise<readonly Answer[]>;
  wasUndone: (error: unknown) => boolean;
}): (request: Request) => Promise<Answer> {
  const waiting: Waiting<Request, Answer>[] = [];
  let underWay = 0;

  function next(): void {
    while (underWay < maxUnderWay && waiting.length > 0) {
      underWay += 1;
      ask(waiting.splice(0, maxTogether)).finally(() => {
        underWay -= 1;
        next();
      });
    }
  }

  /** Never rejects. */
  async function ask(batch: readonly Waiting<Request, Answer>[]): Promise<void> {
    const [first] = batch;
    try {
      if (batch.length === 1) return first?.resolve(await options.askAlone(first.request));
      const answers = await options.askTogether(batch.map(({ request }) => request));
      for (const [place, { resolve }] of batch.entries()) resolve(answers[place] as Answer);
    } catch (error) {
      const again = batch.length > 1 && options.wasUndone(error);
      for (const { request, resolve, reject } of batch) {
        // Whoever waits for a lock of its own does so beside the others.
        if (again) resolve(options.askAlone(request));
        else reject(error);
      }
    }
  }

  return (request) => {
    if (waiting.length >= maxWaiting) return Promise.reject(new GatewayError("service_unavailable"));
    return new Promise((resolve, reject) => {
      waiting.push({ request, resolve, reject });
      next();
    });
  };
}
