import type { Behaviour } from "./behaviours.ts";

type Failure = { status: 400 | 401 | 404 | 429 | 500 | 503 | 529; type: string; code: string | null; message: string };

const failures: Record<Extract<Behaviour["failure"], number | "full">, Failure> = {
  full: {
    status: 400,
    type: "invalid_request_error",
    code: "context_length_exceeded",
    message: "This model's maximum context length is 200000 tokens. However, your messages resulted in 208310 tokens.",
  },
  400: {
    status: 400,
    type: "invalid_request_error",
    code: "demo_bad_request",
    message: "The demo refuses this request.",
  },
  401: { status: 401, type: "invalid_request_error", code: "invalid_api_key", message: "The demo refuses this key." },
  429: { status: 429, type: "requests", code: "rate_limit_exceeded", message: "The demo's rate limit is reached." },
  500: {
    status: 500,
    type: "server_error",
    code: null,
    message: "The demo had an error while processing the request.",
  },
  503: { status: 503, type: "server_error", code: null, message: "The demo is overloaded." },
  529: { status: 529, type: "server_error", code: null, message: "The demo is overloaded." },
};

/** Formats a failure in OpenAI's shape. */
function errorBody({ type, code, message }: Failure, param: string | null = null) {
  return { error: { message, type, param, code } };
}

/** Creates the response of a model that is made to fail. */
export function failureResponse(status: keyof typeof failures): Response {
  const failure = failures[status];
  const headers: HeadersInit = status === 429 ? { "retry-after": "1" } : {};
  return Response.json(errorBody(failure), { status: failure.status, headers });
}

/** Creates the response to a call without the provider's key. */
export function invalidKey(): Response {
  return failureResponse(401);
}

/** Creates the response to a body that violates the wire format, naming the invalid field. */
export function invalidRequest(message: string, param: string | null): Response {
  const failure = { status: 400, type: "invalid_request_error", code: null, message } as const;
  return Response.json(errorBody(failure, param), { status: 400 });
}

/** Creates the response for a model that the demo does not have. */
export function unknownModel(model: string): Response {
  const message = `The demo has no model ${JSON.stringify(model)}.`;
  const failure = { status: 404, type: "invalid_request_error", code: "model_not_found", message } as const;
  return Response.json(errorBody(failure, "model"), { status: 404 });
}

/** The error in the event `response.failed` of a response that exceeds the context window. */
export const fullWindow = { code: failures.full.code, message: failures.full.message };

/** The event that a stream sends when it fails midway. */
export const midwayError = errorBody(failures[500]);
