import { answerRun, beginRun, type ReadCall } from "./answer-run.ts";
import { beginInTime } from "./answers/begin-response.ts";
import type { Gateway } from "./calls/gateway.ts";
import { getOpenEnvelope, refuseEnded } from "./calls/held-calls.ts";
import type { PendingCall, Surface } from "./calls/surface.ts";
import { overloadError } from "./http/errors.ts";
import type { ParsedRequest } from "./requests/parsed-request.ts";

/** Answers a call that waits if its envelope is used up. Its response begins in time, with keepalives. */
export async function waitAndAnswer<Parsed extends ParsedRequest>(
  gateway: Gateway,
  surface: Surface<Parsed>,
  call: ReadCall<Parsed> & {
    waitSeconds: number;
    /** Releases the body and records the refusal. */
    noteFailure: (error: unknown) => void;
  },
): Promise<Response> {
  const { request, requestId, waitSeconds, deadline } = call;
  const waitUntil = Math.min(gateway.now() + waitSeconds * 1_000, deadline);
  let refusal: unknown;
  const run = await beginRun(gateway, call).catch((error: unknown) => {
    if (!getOpenEnvelope(error)) throw error;
    refusal = error;
  });
  if (run) return answerRun(gateway, surface, { ...call, run });
  const pending: PendingCall<Parsed> = {
    surface,
    request,
    requestId,
    model: request.model ?? "",
    open: { hasResponseBegun: false },
  };
  async function answer(): Promise<Response> {
    try {
      const run = await beginOnceRaised(gateway, call, { refusal, waitUntil });
      // The run's latency doesn't include the wait.
      return await answerRun(gateway, surface, { ...call, run, startedAt: gateway.now(), pending });
    } catch (error) {
      if (pending.open.hasResponseBegun) call.noteFailure(error);
      throw error;
    }
  }
  const answering = answer();
  gateway.waitUntil(answering.catch(() => {}));
  return surface.beginsWithAnswer ? answering : beginInTime(gateway, pending, answering);
}

/** Begins the run of a refused call once its envelope has room. @throws GatewayError the last refusal */
async function beginOnceRaised(
  gateway: Gateway,
  call: ReadCall<ParsedRequest>,
  { refusal, waitUntil }: { refusal: unknown; waitUntil: number },
): ReturnType<Gateway["beginRun"]> {
  let latest = refusal;
  let triedRoomUsd = 0;
  for (let refused = getOpenEnvelope(latest); refused; refused = getOpenEnvelope(latest)) {
    const { limit, needUsd } = refused;
    const end = await gateway.waitForEnvelope({
      envelopeId: limit.id,
      needUsd,
      triedRoomUsd,
      bodyBytes: call.size,
      limitMs: waitUntil - gateway.now(),
      signal: call.httpRequest.signal,
    });
    if (end.state === "over") break;
    // Another process can let the call wait.
    if (end.state === "stopping") throw overloadError();
    if (end.state !== "room") throw refuseEnded(limit, end.state);
    triedRoomUsd = end.roomUsd;
    try {
      return await beginRun(gateway, call);
    } catch (error) {
      latest = error;
    }
  }
  throw latest;
}
