import { useEffect, useRef, useState } from "react";
import { type Failure, readFailure, unreached } from "./failure.ts";
import { postJson } from "./stream-chat.ts";

/** A single request and its non-streamed answer. */
export interface Single<Answer> {
  answer: Answer | null;
  failure: Failure | null;
  waiting: boolean;
  /** @returns whether there is an answer */
  send: (body: object, read: (response: Response) => Promise<Answer>) => Promise<boolean>;
  stop: () => void;
}

const stopped: Failure = { sentence: "Stopped. What the provider had already done is listed under Runs." };

/**
 * Sends one request at a time to one of our URLs. Aborts the current request when its panel is removed.
 * @param initial the result of a form posted without JavaScript
 */
export function useSingle<Answer>(
  url: string,
  initial: { answer: Answer | null; failure: Failure | null },
): Single<Answer> {
  const [answer, setAnswer] = useState(initial.answer);
  const [failure, setFailure] = useState(initial.failure);
  const [waiting, setWaiting] = useState(false);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);

  async function send(body: object, read: (response: Response) => Promise<Answer>): Promise<boolean> {
    const controller = new AbortController();
    running.current = controller;
    const requestId = `playground-${crypto.randomUUID()}`;
    const { signal } = controller;
    setWaiting(true);
    setFailure(null);
    try {
      const response = await postJson(url, { body, requestId, signal });
      if (!response.ok) setFailure(await readFailure(response));
      else setAnswer(await read(response));
      return response.ok;
    } catch {
      setFailure({ ...(signal.aborted ? stopped : unreached), requestId });
      return false;
    } finally {
      running.current = null;
      setWaiting(false);
    }
  }

  return { answer, failure, waiting, send, stop: () => running.current?.abort() };
}
