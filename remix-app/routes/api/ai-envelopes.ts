import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { problem } from "../../http/problem.ts";
import { requireFreshUser } from "../../session/user.ts";
import { envelopeQuery, newEnvelope } from "../../studio/envelopes/envelope-schema.ts";
import { listEnvelopes, openEnvelope, openingFaults, parseLimits } from "../../studio/envelopes/envelopes.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";
import { requireWorkspace } from "../../workspaces/permission.ts";

/** `GET /api/v1/workspaces/{wsId}/ai/envelopes?state=…`: lists a page of envelopes. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requireWorkspace(context, { request, params });
  const query = envelopeQuery.safeParse(Object.fromEntries(new URL(request.url).searchParams));
  if (!query.success) {
    const detail = `${String(query.error.issues[0]?.path[0])}: This value is not valid.`;
    throw problem("INVALID_REQUEST", { requestId: context.requestId, detail });
  }
  return Response.json(convertAmountsToJsonNumbers(await listEnvelopes(context, { ...member, ...query.data })));
}

/** `POST` on the same URL: opens an envelope. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { member } = await requireWorkspace(context, { request, params });
  await requireFreshUser(context, request);
  const { requestId } = context;
  const opening = await readJson(request, { schema: newEnvelope, requestId, parse: parseLimits });
  const opened = await openEnvelope(context, { ...member, opening });
  if (opened.outcome === "opened") {
    return Response.json(convertAmountsToJsonNumbers({ envelope: opened.envelope }), { status: 201 });
  }
  if (opened.outcome === "exists") {
    const detail = `An open envelope for these calls exists: ${opened.envelope.id}. Change that one.`;
    throw problem("CONFLICT", { requestId, detail });
  }
  const [param, detail] = openingFaults[opened.outcome];
  if (opened.outcome === "too_many") throw problem("CONFLICT", { requestId, detail });
  throw problem("INVALID_REQUEST", { requestId, detail, members: { param } });
}
