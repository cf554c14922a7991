import { readOrAuthenticate } from "../_gateway/admission/credentials.ts";
import { readCaller, readLabels } from "../_gateway/admission/labels.ts";
import type { Gateway } from "../_gateway/calls/gateway.ts";
import { parseRecord } from "../_gateway/http/parse-body.ts";
import { createRouter, type Handler } from "../_gateway/http/router.ts";
import { utcWindow } from "../_shared/utc-time.ts";

/** Handles `GET /v1/usage`, which reports what the calling app used, by day, model, feature and execution mode. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  return createRouter([{ path: /^\/usage$/, method: "GET", handle: reportUsage(gateway) }], gateway);
}

function reportUsage(gateway: Gateway): Handler {
  const { database } = gateway;
  return async ({ request }) => {
    const caller = await readCaller(gateway, request);
    const window = await readOrAuthenticate(
      () => database.checkAppCaller(caller),
      () => {
        readLabels(request);
        return parseRecord(utcWindow, Object.fromEntries(new URL(request.url).searchParams));
      },
    );
    // A HEAD request changes nothing, not even the time at which the key was last used.
    const text = await database.reportUsage({ ...caller, ...window, notes_use: request.method !== "HEAD" });
    return new Response(text, { headers: { "content-type": "application/json" } });
  };
}
