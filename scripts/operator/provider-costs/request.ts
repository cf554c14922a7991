import { setTimeout as sleep } from "node:timers/promises";

const attempts = 5;
const firstWaitMs = 500;
const maxWaitMs = 30_000;
const timeoutMs = 60_000;

/** A request's headers and body, and the server's name in error messages. */
type RequestOptions = { server: string; headers: Record<string, string>; body?: string };

/**
 * Sends a request until there is a response, waiting longer each time if the server is busy, down or unreachable.
 * @returns the body of a successful response, and its time by the server's clock
 * @throws Error with a one-sentence message: what was refused, or that the server stayed unavailable
 */
export async function request(
  url: URL,
  { server, headers, body }: RequestOptions,
): Promise<{ text: string; now: Date | undefined }> {
  let waitMs = firstWaitMs;
  for (let attempt = 1; ; attempt++) {
    const answer = await send(url, { headers, body });
    if (answer.status === 200) return { text: answer.text, now: answer.now };
    const passing = answer.status === 0 || answer.status === 429 || answer.status >= 500;
    if (!passing || attempt === attempts) throw new Error(`${server} ${describeFailure(answer)}`);
    await sleep(Math.min(maxWaitMs, answer.retryAfterMs ?? waitMs));
    waitMs *= 2;
  }
}

type Answer = { status: number; text: string; now?: Date | undefined; retryAfterMs?: number | undefined };

async function send(url: URL, { headers, body }: Omit<RequestOptions, "server">): Promise<Answer> {
  try {
    const response = await fetch(url, {
      method: body === undefined ? "GET" : "POST",
      headers,
      ...(body === undefined ? {} : { body }),
      redirect: "error",
      signal: AbortSignal.timeout(timeoutMs),
    });
    const date = Date.parse(response.headers.get("date") ?? "");
    const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
    return {
      status: response.status,
      text: await response.text(),
      now: Number.isNaN(date) ? undefined : new Date(date),
      retryAfterMs: Number.isFinite(seconds) ? seconds * 1_000 : undefined,
    };
  } catch {
    return { status: 0, text: "" };
  }
}

function describeFailure({ status, text }: Answer): string {
  switch (status) {
    case 0:
      return "cannot be reached.";
    case 401:
      return "refuses the key (401).";
    case 403:
      return `does not allow this with the key (403${codeOf(text)}).`;
    case 429:
      return "asks to slow down (429). Try again later: what was imported stays.";
    default:
      return status >= 500
        ? `is unavailable (${status}). Try again later: what was imported stays.`
        : `refuses the request (${status}${codeOf(text)}).`;
  }
}

/**
 * Returns the error code in a response body, formatted for a message; empty if there is none. The provider and the
 * gateway use the same error format.
 */
function codeOf(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: { code?: unknown } };
    return typeof error?.code === "string" ? `, ${error.code.slice(0, 64)}` : "";
  } catch {
    return "";
  }
}
