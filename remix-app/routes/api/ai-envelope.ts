import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { problem } from "../../http/problem.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { isFresh, requireFreshUser } from "../../session/user.ts";
import { envelopeChange } from "../../studio/envelopes/envelope-schema.ts";
import { changeEnvelope, openingFaults, parseLimits, requireEnvelope } from "../../studio/envelopes/envelopes.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";
import { requireWorkspace } from "../../workspaces/permission.ts";

export const handle: RouteHandle = { methods: ["GET", "HEAD", "PATCH"] };

/** `GET /api/v1/workspaces/{wsId}/ai/envelopes/{id}`: returns an envelope. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requireWorkspace(context, { request, params });
  const { envelope } = await requireEnvelope(context, { ...member, envelopeId: params.envelopeId });
  return Response.json(convertAmountsToJsonNumbers({ envelope }));
}

/** `PATCH` on the same URL: changes its limits, or ends it. Only raising and extending need a recent proof of identity. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { user, member } = await requireWorkspace(context, { request, params });
  const { requestId } = context;
  const body = await readJson(request, { schema: envelopeChange, requestId, parse: parseLimits });
  const { version = null, ended, ...limits } = body;
  const changed = await changeEnvelope(context, {
    ...member,
    envelopeId: params.envelopeId,
    changes: ended ? { ended } : limits,
    version,
    isFresh: isFresh(user),
  });
  switch (changed.outcome) {
    case "changed":
    case "unchanged":
      return Response.json(convertAmountsToJsonNumbers({ envelope: changed.envelope }));
    case "changed_meanwhile": {
      const detail = "The envelope has changed since that version. Read it again, and send its current version.";
      throw problem("CONFLICT", { requestId, detail });
    }
    case "ended":
      throw problem("CONFLICT", { requestId, detail: "The envelope has ended, so it can’t change. Open a new one." });
    case "bad_end": {
      const [param, detail] = openingFaults.bad_end;
      throw problem("INVALID_REQUEST", { requestId, detail, members: { param } });
    }
    case "step_up_required":
      // Always refuses: the proof was not recent a moment ago.
      return requireFreshUser(context, request);
  }
}
