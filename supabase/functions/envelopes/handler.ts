import { z } from "zod";
import { readOrAuthenticate } from "../_gateway/admission/credentials.ts";
import { readCaller, readLabels } from "../_gateway/admission/labels.ts";
import type { Gateway } from "../_gateway/calls/gateway.ts";
import { envelopeQuery } from "../_gateway/envelopes/envelope-query.ts";
import { type EnvelopeSnapshot, hasSameRoom } from "../_gateway/envelopes/envelope-watch.ts";
import { GatewayError } from "../_gateway/http/errors.ts";
import { createRouter, type Handler } from "../_gateway/http/router.ts";
import { startTimeLimit } from "../_gateway/http/time-limit.ts";

/** The number of requests that wait for a change at the same time. Others are answered immediately. */
const maxWaiting = 1_000;

/** Handles `GET /v1/envelopes/{id}`, which describes an envelope to the caller whose calls it holds. */
export function createHandler(gateway: Gateway): (request: Request) => Promise<Response> {
  return createRouter([{ path: /^\/envelopes\/(?<id>[^/]+)$/, method: "GET", handle: readEnvelope(gateway) }], gateway);
}

function readEnvelope(gateway: Gateway): Handler {
  const { database } = gateway;
  let waiting = 0;
  return async ({ request, params }) => {
    const caller = await readCaller(gateway, request);
    const { id, wait } = await readOrAuthenticate(
      () => database.checkCredential(caller),
      () => {
        readLabels(request);
        return readRequest(request, params.id);
      },
    );
    const read = () => database.readOwnEnvelope({ ...caller, envelope_id: id });
    let text = await read();
    if (wait > 0 && waiting < maxWaiting) {
      waiting += 1;
      const hasChanged = await waitForChange(gateway, { known: JSON.parse(text), limitMs: wait * 1_000, request });
      waiting -= 1;
      if (hasChanged) text = await read();
    }
    return new Response(text, { headers: { "content-type": "application/json" } });
  };
}

/** @throws GatewayError `envelope_not_found` for an id that no envelope can have, or `invalid_request` */
function readRequest(request: Request, id: string | undefined): { id: string; wait: number } {
  const uuid = z.uuid().safeParse(id);
  if (!uuid.success) throw new GatewayError("envelope_not_found");
  const query = envelopeQuery.safeParse(Object.fromEntries(new URL(request.url).searchParams));
  if (!query.success) {
    throw new GatewayError("invalid_request", { param: "wait", message: "wait allows 0 to 60 seconds." });
  }
  return { id: uuid.data, wait: query.data.wait };
}

/**
 * Waits until an envelope's state, limits or room change, the time is up, the client has left or the process stops.
 * @param options.known the envelope as the caller knows it, without amounts if the workspace hides costs
 * @returns whether it has changed
 */
function waitForChange(
  { watchEnvelope, stopping }: Pick<Gateway, "watchEnvelope" | "stopping">,
  { known, limitMs, request }: { known: Partial<EnvelopeSnapshot> & { id: string }; limitMs: number; request: Request },
): Promise<boolean> {
  return new Promise((resolve) => {
    let latest = known;
    function end(hasChanged: boolean): void {
      limit.end();
      unwatch();
      for (const signal of signals) signal.removeEventListener("abort", leave);
      resolve(hasChanged);
    }
    const leave = () => end(false);
    const signals = [request.signal, stopping];
    const limit = startTimeLimit(limitMs, leave);
    const unwatch = watchEnvelope(known.id, (snapshot) => {
      if (!hasSameRoom(latest, snapshot)) end(true);
      latest = snapshot;
    });
    for (const signal of signals) signal.addEventListener("abort", leave, { once: true });
    if (signals.some(({ aborted }) => aborted)) leave();
  });
}
