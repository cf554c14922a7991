import { z } from "zod";
import type { Operation } from "#shared/operation.ts";
import type { ProblemCode } from "../http/problem.ts";
import { actOperations, changeOperations, readOperations } from "./definitions.ts";
import {
  type AdminActId,
  type AdminChangeId,
  type AdminOperation,
  type AdminReadId,
  listAdminOperations,
} from "./table.ts";

/** The documents' tag of each first segment below the base path. */
const tags: Readonly<Record<string, string>> = {
  overview: "Admin: overview and log",
  "outage-mails": "Admin: overview and log",
  people: "Admin: overview and log",
  "audit-log": "Admin: overview and log",
  accounts: "Admin: accounts",
  "account-invitations": "Admin: accounts",
  settings: "Admin: accounts",
  "address-blocks": "Admin: accounts",
  recovery: "Admin: accounts",
  workspaces: "Admin: workspaces",
  platform: "Admin: workspaces",
  "key-requests": "Admin: workspaces",
  "credit-accounts": "Admin: workspaces",
  runs: "Admin: workspaces",
  plans: "Admin: plans and providers",
  providers: "Admin: plans and providers",
  "provider-settings": "Admin: plans and providers",
  "provider-tests": "Admin: plans and providers",
  models: "Admin: models and prices",
  "price-proposals": "Admin: models and prices",
  apps: "Admin: apps",
  "openid-clients": "Admin: apps",
  "service-accounts": "Admin: service accounts",
  books: "Admin: books",
};

/** Examples of the parameters that are not UUIDs. */
const examples: Readonly<Record<string, string>> = {
  day: "2026-10-31",
  modelId: "demo-chat",
  month: "2026-10",
  name: "notes",
  payer: "workspace",
  planId: "team",
  position: "1",
  priceId: "7",
  provider: "openai",
  providerId: "openai",
};

const readProblems = ["INVALID_REQUEST", "FORBIDDEN", "MFA_REQUIRED", "STEP_UP_REQUIRED", "NOT_FOUND"] as const;

const keyWords =
  "Requests with the same key within 24 hours make the change once; another request with the key gets 409. 1 to 255 visible ASCII characters.";
const optionalKey = z.object({ "Idempotency-Key": z.string().optional().describe(keyWords) });
const requiredKey = z.object({ "Idempotency-Key": z.string().describe(keyWords) });

const changed = { status: 204, description: "The change is made, and in the audit log." } as const;
const secretCreated = {
  status: 201,
  description: "The change is made. The secret is never shown again.",
  schema: z.object({ secret: z.string() }),
} as const;

function describeOperation(operation: AdminOperation): Operation<ProblemCode> {
  const { id, method, path, scope } = operation;
  const [segment = ""] = path.split("/").slice(4);
  const callers =
    scope === "person"
      ? "For an infrastructure admin’s own session only."
      : `Service accounts need the scope admin:${scope}.`;
  const shared = scope === "person" ? readProblems : ([...readProblems, "RATE_LIMITED"] as const);
  const common = {
    id,
    method,
    path,
    tag: tags[segment] ?? segment,
    pathExamples: Object.fromEntries(Object.entries(examples).filter(([name]) => path.includes(`{${name}}`))),
    credentials: scope === "person" ? (["session", "bearer"] as const) : (["session", "bearer", "service"] as const),
    ...(scope === "person" ? {} : { scope: `admin:${scope}` }),
  };
  const explain = (description: string | undefined) => [description, callers].filter(Boolean).join(" ");
  if (method === "GET") {
    const { summary, description, query, answer, amountsAreNumbers } = readOperations[id as AdminReadId];
    return {
      ...common,
      summary,
      description: explain(description),
      ...(query ? { query } : {}),
      answers: [{ status: 200, description: "The current state.", schema: answer }],
      problems: [...shared],
      ...(amountsAreNumbers ? {} : { amountsAreText: true as const }),
    };
  }
  const act = id in actOperations ? actOperations[id as AdminActId] : null;
  const { summary, description, body, example, createsSecret } = act ?? changeOperations[id as AdminChangeId];
  const done: Operation["answers"] = createsSecret ? [secretCreated, changed] : [changed];
  return {
    ...common,
    summary,
    description: explain(description),
    ...(act ? {} : { headers: method === "POST" ? requiredKey : optionalKey }),
    body: { schema: body, example },
    answers: act?.answer ? [{ status: 200, description: "What was done.", schema: act.answer }] : done,
    problems: [...shared, "CONFLICT"],
    amountsAreText: true,
  };
}

/** The operations of the admin API, for the OpenAPI document. */
export const adminApiOperations: readonly Operation<ProblemCode>[] = listAdminOperations().map(describeOperation);
