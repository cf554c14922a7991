/** Every error code of the web origin, with its status and title. The list is closed. */
export const problems = {
  INVALID_REQUEST: { status: 400, title: "The request is invalid" },
  UNAUTHENTICATED: { status: 401, title: "Sign in to continue" },
  REAUTH_REQUIRED: { status: 401, title: "Sign in again to continue" },
  FORBIDDEN: { status: 403, title: "You don’t have access to this" },
  CSRF_REJECTED: { status: 403, title: "This request came from another site" },
  MFA_REQUIRED: { status: 403, title: "A second step is required" },
  STEP_UP_REQUIRED: { status: 403, title: "Confirm it’s you" },
  BOT_CHALLENGE_REQUIRED: { status: 403, title: "Verify that you’re human to continue" },
  NOT_FOUND: { status: 404, title: "Not found" },
  METHOD_NOT_ALLOWED: { status: 405, title: "Method not allowed" },
  CONFLICT: { status: 409, title: "This conflicts with the current state" },
  GONE: { status: 410, title: "This is no longer available" },
  PAYLOAD_TOO_LARGE: { status: 413, title: "The request is too large" },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: "The content type is not supported" },
  RATE_LIMITED: { status: 429, title: "Too many attempts" },
  AUTH_UNAVAILABLE: { status: 503, title: "We can’t check your sign-in right now" },
  UNAVAILABLE: { status: 503, title: "The service is unavailable right now" },
  INTERNAL: { status: 500, title: "Something went wrong on our side" },
} as const;

export type ProblemCode = keyof typeof problems;

/** The body of a problem response (RFC 9457), and what the error page shows. */
export interface ProblemBody {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ProblemCode;
  requestId: string;
  /** The path of the page to return to, if the request came from the page of another account. */
  page?: string;
}

export interface ProblemOptions {
  requestId: string;
  /** User-facing text of our own, never text from another system. */
  detail?: string;
  members?: Record<string, unknown>;
  headers?: HeadersInit;
}

const defaultDetails: Partial<Record<ProblemCode, string>> = {
  UNAUTHENTICATED: "You need to sign in to do this.",
  CSRF_REJECTED:
    "For your security, this only works from our own pages. Go to the home page and start again from there.",
  MFA_REQUIRED:
    "This account needs its second step. Verify a code of its authenticator app, or open /mfa in the browser to enter one or set the app up. Then try again.",
  NOT_FOUND: "The address may be mistyped, the page may have moved, or you may not have access.",
  PAYLOAD_TOO_LARGE: "Send at most 64 KiB.",
  AUTH_UNAVAILABLE: "You’re not signed out. Try again in a moment.",
  UNAVAILABLE: "Try again in a moment.",
  INTERNAL: "Try again. If it happens again, contact support with the request ID.",
};

/** Creates a problem response (RFC 9457). Throw it from a loader or an action: APIs return it, pages show it. */
export function problem(code: ProblemCode, options: ProblemOptions): Response {
  const { requestId, detail, members, headers } = options;
  const words = problemText(code);
  const { status } = problems[code];
  const body: ProblemBody = {
    // Resolved against the request's URL (RFC 9457, 3.1.1): the code's place on our own page about errors.
    type: `/docs/errors#${code}`,
    title: words.title,
    status,
    detail: detail ?? words.detail,
    code,
    requestId,
    ...members,
  };
  const responseHeaders = new Headers(headers);
  responseHeaders.set("Content-Type", "application/problem+json");
  responseHeaders.set("Cache-Control", "private, no-store");
  return new Response(JSON.stringify(body), { status, headers: responseHeaders });
}

/** Returns a problem's default text for people. */
export function problemText(code: ProblemCode): { title: string; detail: string } {
  const { title } = problems[code];
  return { title, detail: defaultDetails[code] ?? title };
}

/** Parses a problem from an error response's text; null if it isn't one. */
export function parseProblem(text: unknown): ProblemBody | null {
  if (typeof text !== "string") return null;
  try {
    const body = JSON.parse(text) as Partial<ProblemBody> | null;
    return body && typeof body.code === "string" && body.code in problems ? (body as ProblemBody) : null;
  } catch {
    return null;
  }
}
