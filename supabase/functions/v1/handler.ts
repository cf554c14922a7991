import type { Gateway } from "../_gateway/gateway.ts";
import { GatewayError } from "../_gateway/http/errors.ts";
import { createRouter, type Handler } from "../_gateway/http/router.ts";

/** Answers calls whose base URL has one `/v1` too many, such as `/functions/v1/v1/chat/completions`, with the cause. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  const path = /^\/v1(\/|$)/;
  return createRouter(
    [
      { path, method: "GET", handle: refuse },
      { path, method: "POST", handle: refuse },
    ],
    gateway,
  );
}

const refuse: Handler = async () => {
  const message =
    "The base URL ends in /v1 twice. OpenAI clients take the address up to and including one /v1, Anthropic clients the address before it.";
  throw new GatewayError("not_found", { message });
};
