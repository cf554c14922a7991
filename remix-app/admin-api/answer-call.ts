import type { ActionFunctionArgs, AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { nameField, ourMessages } from "#shared/validation-messages.ts";
import { callConsole } from "../admin/console-change.ts";
import { hashToBytea, newOpaqueToken } from "../apps/opaque-tokens.ts";
import { readJson } from "../http/json-body.ts";
import { type ProblemCode, problem } from "../http/problem.ts";
import { type AdminCaller, requireAdminCaller } from "./caller.ts";
import type { ActDefinition, AdminCall, ChangeDefinition, ReadDefinition } from "./define.ts";
import { actOperations, changeOperations, readOperations } from "./definitions.ts";
import { changeAnswer, describeRefusal } from "./refusals.ts";
import { type AdminActId, type AdminOperation, type AdminReadId, listAdminOperations } from "./table.ts";

/**
 * Answers a request to the admin API.
 * @throws Response a problem
 */
export async function answerAdminCall({ request, params, context }: ActionFunctionArgs): Promise<Response> {
  const method = request.method === "HEAD" ? "GET" : request.method;
  const operation = listAdminOperations(context.routePattern).find((each) => each.method === method);
  if (!operation) throw problem("NOT_FOUND", { requestId: context.requestId });
  const caller = await requireAdminCaller(context, { request, scope: operation.scope });
  const call = createCall({ context, caller, params, url: new URL(request.url), signal: request.signal });
  const { id } = operation;
  if (method === "GET") return answerRead(call, readOperations[id as AdminReadId]);
  if (id in actOperations) return answerAct(call, { request, definition: actOperations[id as AdminActId] });
  const definition = changeOperations[id as keyof typeof changeOperations];
  return answerChange(call, { request, operation, definition, params });
}

type Params = ActionFunctionArgs["params"];

function createCall({
  context,
  params,
  ...call
}: {
  context: AppLoadContext;
  caller: AdminCaller;
  params: Params;
  url: URL;
  signal: AbortSignal;
}): AdminCall {
  const param = (name: string) => params[name] ?? "";
  const paramOf = (name: string, isValid: (text: string) => boolean) => {
    if (!isValid(param(name))) throw problem("NOT_FOUND", { requestId: context.requestId });
    return param(name);
  };
  return {
    ...call,
    context,
    param,
    uuid: (name) => paramOf(name, (text) => z.uuid().safeParse(text).success),
    integer: (name) => Number(paramOf(name, (text) => /^[1-9]\d{0,8}$/.test(text))),
  };
}

async function answerRead(call: AdminCall, { query, read }: ReadDefinition): Promise<Response> {
  const values = query?.safeParse(Object.fromEntries(call.url.searchParams), ourMessages);
  if (values?.success !== false) return answerJson(200, await read(call, values?.data ?? {}));
  const [issue] = values.error.issues;
  const param = issue?.path.join(".") ?? "";
  const detail = nameField(issue?.message ?? "The query is not valid", `“${param}”`);
  throw problem("INVALID_REQUEST", { requestId: call.context.requestId, detail, members: { param } });
}

/** Makes a change once for each Idempotency-Key, in one transaction with the audit log. */
async function answerChange(
  call: AdminCall,
  {
    request,
    operation,
    definition,
    params,
  }: { request: Request; operation: AdminOperation; definition: ChangeDefinition; params: Params },
): Promise<Response> {
  const { context, caller } = call;
  const { requestId, clientAddress: ip } = context;
  const key = readIdempotencyKey(request, { requestId, isRequired: operation.method === "POST" });
  const values = await readJson(request, { schema: definition.body, requestId });
  const secret = definition.createsSecret?.(values) ? newOpaqueToken("") : null;
  // The fields of the body are last known here. What identifies the caller is set after them.
  const change = {
    ...(await definition.change(call, values)),
    ...(definition.createsSecret ? { secretHash: secret && hashToBytea(secret) } : {}),
    reason: values.reason,
    actor: caller.person?.id ?? null,
    serviceAccount: caller.person ? null : caller.id,
    serviceAccountScopes: caller.scopes,
    requestId,
    ip,
  };
  const name = operation.change ?? "";
  const requestHash = hashToBytea(JSON.stringify([operation.id, params, values]));
  const { data, error } = await callConsole(
    context,
    key === null
      ? { name, args: { change } }
      : { name: "change_once", args: { name, change: { ...change, idempotencyKey: key, requestHash } } },
  );
  const answer = changeAnswer.safeParse(data);
  if (error || !answer.success) {
    const detail = "The change may have been made. Repeat the request with the same Idempotency-Key.";
    throw problem("UNAVAILABLE", { requestId, detail });
  }
  const { refused, repeated, id, part, last } = answer.data;
  if (refused !== undefined) {
    const [code, detail] = describeRefusal(refused, last);
    throw problem(code, { requestId, detail, members: { refusal: refused, ...(part && { param: part }) } });
  }
  if (secret !== null && repeated) {
    const detail = "An earlier request with this Idempotency-Key created the secret, which was shown once.";
    throw problem("CONFLICT", { requestId, detail, members: { refusal: "secret_shown" } });
  }
  if (secret !== null) return answerJson(201, { secret });
  return id === undefined ? new Response(null, { status: 204 }) : answerJson(201, { id });
}

const actProblems = {
  400: "INVALID_REQUEST",
  403: "FORBIDDEN",
  404: "NOT_FOUND",
  409: "CONFLICT",
  503: "UNAVAILABLE",
} as const satisfies Record<number, ProblemCode>;

/** Makes a change as its page does. */
async function answerAct(
  call: AdminCall,
  { request, definition }: { request: Request; definition: ActDefinition },
): Promise<Response> {
  const { requestId } = call.context;
  const { body: schema, parse } = definition;
  const values = await readJson(request, { schema, requestId, ...(parse ? { parse } : {}) });
  const result = await definition.act(call, values);
  if (result.outcome === "refused") {
    const { status, message: detail, field } = result;
    throw problem(actProblems[status], { requestId, detail, ...(field && { members: { param: field } }) });
  }
  const { answer, secret } = result;
  if (answer) return answerJson(200, answer);
  return secret ? answerJson(201, { secret }) : new Response(null, { status: 204 });
}

/** @throws Response 400 INVALID_REQUEST for an invalid key, or if a required one is missing */
function readIdempotencyKey(
  request: Request,
  { requestId, isRequired }: { requestId: string; isRequired: boolean },
): string | null {
  const key = request.headers.get("idempotency-key");
  if (key === null ? !isRequired : /^[\x21-\x7e]{1,255}$/.test(key)) return key;
  throw problem("INVALID_REQUEST", {
    requestId,
    detail: "Send an Idempotency-Key of 1 to 255 visible ASCII characters, a new one for each change.",
    members: { param: "Idempotency-Key" },
  });
}

const databaseTime = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)\+00:00$/;

/** Answers with JSON. Times of the database are written with Z. */
function answerJson(status: 200 | 201, body: unknown): Response {
  const text = JSON.stringify(body, (_, value: unknown) =>
    typeof value === "string" ? value.replace(databaseTime, "$1Z") : value,
  );
  return new Response(text, { status, headers: { "Content-Type": "application/json" } });
}
