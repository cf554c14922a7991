import { pageAccountHeader } from "../../http/form.ts";
import { type ChatAnswer, type ChatBody, createChatAnswer } from "./chat-message.ts";
import { type Failure, failureInStream, readFailure, unreached } from "./failure.ts";
import { factsOfRun, parseAnswer, type RunFacts } from "./run-facts.ts";

/** A streamed answer as far as it arrived, and how the stream ended. */
export interface StreamedChat {
  answer: ChatAnswer;
  failure?: Failure | undefined;
  stopped: boolean;
}

const cutOff = "The answer was cut off. Try again, or choose another model.";
const settleTries = 10;
const settleWaitMs = 400;

/**
 * Requests an answer through our own server and reads it as it arrives.
 * @param options.onProgress called whenever more of the answer has arrived, with a function that returns the answer so
 * far
 */
export async function streamChat(options: {
  url: string;
  body: ChatBody;
  requestId: string;
  signal: AbortSignal;
  onProgress: (snapshot: () => ChatAnswer) => void;
}): Promise<StreamedChat> {
  const { url, body, requestId, signal, onProgress } = options;
  const started = performance.now();
  const elapsedMs = () => Math.round(performance.now() - started);
  const { take, answer } = createChatAnswer();
  let firstTokenMs: number | undefined;
  try {
    const response = await postJson(url, { body, requestId, signal });
    if (!response.ok || !response.body)
      return { answer: answer(), failure: await readFailure(response), stopped: false };
    for await (const data of eventData(response.body)) {
      take(data);
      if (firstTokenMs === undefined && hasOutput(answer())) firstTokenMs = elapsedMs();
      onProgress(answer);
    }
  } catch {
    const failure = signal.aborted ? undefined : { ...unreached, requestId };
    return { answer: answer(), failure, stopped: signal.aborted };
  }
  const { facts, error, ...rest } = answer();
  if (error) return { answer: rest, failure: { requestId, ...failureInStream(error) }, stopped: false };
  if (!facts) return { answer: rest, failure: { sentence: cutOff, requestId }, stopped: false };
  // Both times are measured in the browser, so that the time to the first token never exceeds the total. The run's page
  // shows the gateway's own times.
  return { answer: { ...rest, facts: { ...facts, firstTokenMs, latencyMs: elapsedMs() } }, stopped: false };
}

/** Posts JSON to our own server, and sends the page's account in a header. */
export function postJson(
  url: string,
  { body, requestId, signal }: { body: object; requestId: string; signal: AbortSignal },
): Promise<Response> {
  const headers = new Headers({ "Content-Type": "application/json", "X-Request-Id": requestId });
  const { account } = document.documentElement.dataset;
  if (account) headers.set(pageAccountHeader, account);
  return fetchOrReload(url, { method: "POST", headers, body: JSON.stringify(body), signal });
}

/**
 * Fetches from our own server. If the session needs a second factor, reloads the page, which redirects to the challenge
 * and back.
 */
async function fetchOrReload(url: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(url, init);
  if (response.status === 403) {
    const refusal = await response
      .clone()
      .json()
      .catch(() => null);
    if ((refusal?.error ?? refusal)?.code === "MFA_REQUIRED")
      location.replace(`${location.pathname}${location.search}`);
  }
  return response;
}

/**
 * Looks up the facts of a run by request id. Needed if the run ended without reporting them.
 * @returns null if they are not available in time
 */
export async function findRunFacts(workspaceId: string, requestId: string): Promise<RunFacts | null> {
  for (let tries = 0; tries < settleTries; tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, settleWaitMs));
    const response = await fetchOrReload(`/api/v1/workspaces/${workspaceId}/ai/runs?requestId=${requestId}`).catch(
      () => null,
    );
    const facts = response?.ok
      ? await response
          .text()
          .then(factsOfListed)
          .catch(() => null)
      : null;
    if (facts) return facts;
  }
  return null;
}

function factsOfListed(text: string): RunFacts | null {
  return factsOfRun(parseAnswer(text)?.runs?.[0]);
}

function hasOutput({ message }: ChatAnswer): boolean {
  return message.content !== null || message.refusal !== undefined || message.tool_calls !== undefined;
}

const lineBreaks = /\r\n|\n|\r/;

/**
 * Reads server-sent events (WHATWG HTML, 9.2.6) as they arrive. Yields the data of each event until the stream ends.
 */
export async function* eventData(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = stream.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let rest = "";
  let data: string[] = [];
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      const buffered = rest + read.value;
      // A trailing carriage return may be half of a line break.
      const complete = buffered.endsWith("\r") ? buffered.slice(0, -1) : buffered;
      const lines = complete.split(lineBreaks);
      rest = (lines.pop() ?? "") + buffered.slice(complete.length);
      for (const line of lines) {
        if (line === "" && data.length > 0) {
          yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
