const preflightSeconds = 3_600;

/** Lets scripts of any origin read a response. For routes that never use cookies. */
export async function allowAnyOrigin(pendingResponse: Response | Promise<Response>): Promise<Response> {
  const response = await pendingResponse;
  const headers = new Headers(response.headers);
  headers.set("Access-Control-Allow-Origin", "*");
  headers.set("Access-Control-Expose-Headers", "WWW-Authenticate, X-Request-Id, Retry-After");
  const { status, statusText } = response;
  return new Response(response.body, { status, statusText, headers });
}

/** Answers a CORS preflight request. */
export function preflightResponse(allow: string): Response {
  return new Response(null, {
    status: 204,
    headers: {
      Allow: allow,
      "Access-Control-Allow-Origin": "*",
      "Access-Control-Allow-Methods": allow,
      "Access-Control-Allow-Headers": "Authorization, Content-Type",
      "Access-Control-Max-Age": String(preflightSeconds),
    },
  });
}
