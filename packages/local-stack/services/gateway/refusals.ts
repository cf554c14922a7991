/** A refusal by the gateway itself, with the shape, status and `sb-error-code` of hosted Supabase. */
export type Refusal = {
  status: 401 | 404 | 503;
  body: Record<string, string | null>;
  headers?: Record<string, string>;
};

function keyRefusal(errorCode: string, body: Refusal["body"]): Refusal {
  return { status: 401, body, headers: { "sb-error-code": errorCode } };
}

export const missingKey = keyRefusal("UNAUTHORIZED_MISSING_API_KEY", {
  message: "No API key found in request",
  hint: "No `apikey` request header or url param was found.",
});

export const invalidKey = keyRefusal("UNAUTHORIZED_INVALID_API_KEY", {
  message: "Invalid API key",
  hint: "Double check your Supabase `apikey`.",
});

export const secretKeyInBrowser = keyRefusal("UNAUTHORIZED_INVALID_API_KEY_TYPE", {
  message: "Forbidden use of secret API key in browser",
  hint: "Secret API keys can only be used in a protected environment, such as on a server.",
});

export const noRoute: Refusal = { status: 404, body: { message: "no Route matched with those values" } };

/** Returns the 503 response for a service behind the gateway that cannot be reached. */
export function unavailable(service: "identity" | "functions"): Refusal {
  const message = `The ${service} service cannot be reached. Please try again in a moment.`;
  return { status: 503, body: { code: "service_unavailable", message }, headers: { "retry-after": "1" } };
}

/** Creates the refusal of a user's token in PostgREST's format (documentation, references/errors, group 3). */
export function tokenRefusal(code: "PGRST301" | "PGRST303", message: string, details: string | null = null): Refusal {
  return {
    status: 401,
    body: { code, details, hint: null, message },
    headers: { "www-authenticate": `Bearer error="invalid_token", error_description="${message}"` },
  };
}
