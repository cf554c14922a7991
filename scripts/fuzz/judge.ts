/** The parts of a response that are judged. */
export interface Outcome {
  surface: "page" | "api" | "gateway";
  /** The request as text. A response may repeat it, so its contents do not count as a leak. */
  sent: string;
  method: string;
  /** Absent if the deadline passed without a response. */
  answer?: { status: number; requestId: string | null; contentType: string; text: string };
}

/** Text in a response that would expose the server's internals. */
const insides: readonly [string, RegExp][] = [
  ["a stack trace", /\bat (?:async )?[\w.<>]+ \([^)\s]+:\d+:\d+\)|^\s+at .+:\d+:\d+$/m],
  ["a path of the server", /node_modules|file:\/\/\/|\/(?:home|opt|root|srv|tmp|Users)\/[\w.-]+\/|\.tsx?:\d+/],
  [
    "SQL",
    /\bsyntax error at or near\b|\bviolates (?:check|foreign|not-null|unique)\b|\brelation \\?"|\bSQLSTATE\b|\bPGRST\d{3}\b/i,
  ],
  ["a table or function", /\b(?:private|auth|ai)\.(?!gatehouse)[a-z]+(?:_[a-z]+)+\b/],
  ["a connection string", /postgres(?:ql)?:\/\//],
];

/** 502 and 504 mean that a model's provider failed, which generated requests may cause. */
const ofProvider = new Set([502, 504]);

/**
 * Returns a function that finds the faults of a response. A response must not contain one of `secrets` unless its
 * request did.
 */
export function createJudge(secrets: readonly string[]): (outcome: Outcome) => string[] {
  const telling = secrets.filter((secret) => secret.length >= 8);
  return ({ surface, sent, method, answer }) => {
    if (!answer) return ["no answer within the deadline"];
    const { status, requestId, text } = answer;
    const faults: string[] = [];
    const said = (found: string) => sent.includes(found) || JSON.stringify(sent).includes(found);
    if (status >= 500 && !(surface === "gateway" && ofProvider.has(status))) faults.push(`status ${status}`);
    if (!requestId) faults.push("no x-request-id");
    for (const secret of telling) {
      if (text.includes(secret) && !said(secret)) faults.push(`a secret: ${secret.slice(0, 6)}…`);
    }
    // Skips successful pages, because they may contain text that matches these patterns. For example, the API reference
    // shows internal names.
    if (status >= 400 || surface !== "page") {
      for (const [what, pattern] of insides) {
        const found = pattern.exec(text)?.[0];
        if (found !== undefined && !said(found)) faults.push(`${what}: ${found.slice(0, 80)}`);
      }
    }
    if (status >= 400 && surface !== "page" && method !== "HEAD") faults.push(...malformed(surface, answer));
    return faults;
  };
}

/** Returns what is wrong with an API's error response, or nothing if it is well-formed. */
function malformed(
  surface: "api" | "gateway",
  { status, requestId, contentType, text }: NonNullable<Outcome["answer"]>,
) {
  const body = parsed(text);
  // Calls that the web server forwards keep the gateway's error shape.
  const error = body?.error as Record<string, unknown> | undefined;
  if (surface === "gateway" || (error && !("code" in (body ?? {})))) {
    const said = error && ["message", "type", "code"].every((name) => typeof error[name] === "string");
    if (!said || !("param" in error)) return [`${status}: not an error of the gateway: ${text.slice(0, 120)}`];
    // Errors of the Messages API have the id next to the `error` object, not inside it.
    const told = body?.type === "error" ? body.request_id : error.request_id;
    return told === requestId ? [] : ["the error's request id is another than the header's"];
  }
  if (!contentType.startsWith("application/problem+json")) return [`${status} as ${contentType || "nothing"}`];
  const said = body && ["type", "title", "detail", "code", "requestId"].every((name) => typeof body[name] === "string");
  if (!said || body.status !== status) return [`${status}: not a problem: ${text.slice(0, 120)}`];
  return body.requestId === requestId ? [] : ["the problem's request id is another than the header's"];
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
