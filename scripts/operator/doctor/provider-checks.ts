import type { Endpoint } from "../../../supabase/functions/_gateway/providers/kinds/kind.ts";
import { kinds } from "../../../supabase/functions/_gateway/providers/kinds/registry.ts";
import { createAddress, createModelAddress } from "../../../supabase/functions/_gateway/providers/provider-address.ts";
import type { Provider } from "../../../supabase/functions/_gateway/providers/provider-settings.ts";
import { providerSettingName } from "../../../supabase/functions/_shared/provider-setting-names.ts";
import { type Finding, fail, ok, unseen, warn } from "./finding.ts";
import { kindOf, otherKind, readModelList } from "./model-list.ts";
import {
  aboutProvider,
  judgeAddress,
  judgeReply,
  type Named,
  noAnswer,
  notThere,
  otherBases,
} from "./provider-faults.ts";
import { ask, findHost, type Reply } from "./provider-request.ts";

/** Limit for all requests to one provider together. */
const limitMs = 10_000;

/** A model that is routed to a provider, and the provider's endpoint for the model. */
export type Asked = { model: string; endpoint: Endpoint; routes: string[] };

/**
 * Queries all providers for their models concurrently, each with its own time limit. If a provider has no model list,
 * calls each of its models once with a small token limit.
 * @param askedOf the models that are routed to each provider; undefined if the routes could not be read
 */
export async function checkProviders(
  providers: ReadonlyMap<string, Provider>,
  askedOf: ReadonlyMap<string, Asked[]> | undefined,
  limits = { providerMs: limitMs },
): Promise<Finding[]> {
  const findings = await Promise.all(
    [...providers].map(([id, provider]) =>
      checkProvider(
        { id, provider },
        { asked: askedOf && (askedOf.get(id) ?? []), signal: AbortSignal.timeout(limits.providerMs) },
      ),
    ),
  );
  return findings.flat();
}

type Question = { asked: Asked[] | undefined; signal: AbortSignal };

async function checkProvider(named: Named, { asked, signal }: Question): Promise<Finding[]> {
  const idle =
    asked?.length === 0
      ? [warn(aboutProvider(named.id), "no route uses it. Add one (ai.model_routes), or remove its settings.")]
      : [];
  const wrong = judgeAddress(named) ?? (await judgeHost(named, signal));
  return [...(wrong ? [wrong] : await askForModels(named, { asked, signal })), ...idle];
}

async function judgeHost(named: Named, signal: AbortSignal): Promise<Finding | undefined> {
  const why = await findHost(named.provider, signal);
  return why && noAnswer(named, why);
}

async function askForModels(named: Named, question: Question): Promise<Finding[]> {
  const { provider } = named;
  const { paths, optional } = provider.kind.models;
  const [first, ...further] = paths;
  if (first === undefined) return callModels(named, question);
  const reply = await askFor(provider, first, question.signal);
  const list = readReply(reply);
  if (!list) {
    const fault = judgeReply(named, reply);
    // A proxy may answer 403 instead of 404 if the provider has no list of models.
    const isMissing = fault === undefined || (optional && "status" in reply && reply.status === 403);
    if (!isMissing) return [fault];
    const kind = await findKind(provider, question.signal);
    if (kind) return [wrongKind(named, kind)];
    const found = await findBase(provider, question.signal);
    return optional && !found ? callModels(named, question) : [notThere(named, reply, found)];
  }
  const kind = otherKind(list, provider.kind);
  if (kind) return [wrongKind(named, kind)];
  const keyFault = await judgeKey(named, question.signal);
  if (keyFault?.level === "fail") return [keyFault];
  const others = await Promise.all(further.map((path) => askFor(provider, path, question.signal)));
  // If a further list fails, report the failure, because the models on that list would seem to be missing. A 404 is not
  // a failure: the server has no such list.
  const fault = others.map((other) => judgeReply(named, other)).find((each) => each !== undefined);
  if (fault) return [fault];
  const names = [list, ...others.map(readReply)].flatMap((each) => each?.names ?? []);
  return [...(keyFault ? [keyFault] : []), ...judgeModels(named, names, question.asked)];
}

/** Sends the key in the same way as a text call, even if the settings exclude text endpoints. */
function askFor(provider: Provider, path: string, signal: AbortSignal): Promise<Reply> {
  const { chat, messages } = kinds[provider.kind.name].endpoints;
  const { keyHeader = "authorization" } = chat ?? messages ?? {};
  return ask(createAddress(provider, { path, keyHeader }), signal);
}

function readReply(reply: Reply) {
  return "status" in reply && reply.status === 200 ? readModelList(reply.json) : undefined;
}

async function findBase(provider: Provider, signal: AbortSignal): Promise<string | undefined> {
  const [path = "/models"] = provider.kind.models.paths;
  const bases = await Promise.all(
    otherBases(provider).map(async (baseUrl) => {
      const reply = await askFor({ ...provider, baseUrl }, path, signal);
      // A refused key also shows that the API is at this address.
      return readReply(reply) || ("status" in reply && reply.status === 401) ? baseUrl : undefined;
    }),
  );
  return bases.find((base) => base !== undefined);
}

/**
 * Requests `/models` with the key in the `authorization` header, as most provider kinds expect.
 * @returns the kind that the list indicates
 */
async function findKind(provider: Provider, signal: AbortSignal): Promise<string | undefined> {
  const { path, keyHeader } = { path: "/models", keyHeader: "authorization" } as const;
  if (provider.kind.models.paths.includes(path)) return undefined;
  const list = readReply(await ask(createAddress(provider, { path, keyHeader }), signal));
  return list && kindOf(list);
}

function wrongKind({ id, provider }: Named, kind: string): Finding {
  const other = kind === "openai-compatible" ? "" : ", or openai-compatible for a proxy";
  return fail(
    aboutProvider(id),
    `kind: ${provider.baseUrl} answers as ${kind} does, and the kind is ${provider.kind.name}. Set ${providerSettingName(id, "KIND")}=${kind}${other}, or correct ${providerSettingName(id, "BASE_URL")}.`,
  );
}

async function judgeKey(named: Named, signal: AbortSignal): Promise<Finding | undefined> {
  const { keyPath } = named.provider.kind.models;
  if (!keyPath) return undefined;
  const reply = await askFor(named.provider, keyPath, signal);
  const fault = judgeReply(named, reply);
  if (fault || !("status" in reply)) return fault;
  if (reply.status !== 200) return notThere(named, reply, undefined);
  const { limit_remaining: left } = (reply.json as { data?: { limit_remaining?: number | null } } | null)?.data ?? {};
  return typeof left === "number" && left <= 0
    ? warn(aboutProvider(named.id), "credit: the key's limit is used up. Raise it, or use another key.")
    : undefined;
}

function judgeModels({ id, provider }: Named, names: readonly string[], asked: Asked[] | undefined): Finding[] {
  const { models } = provider.kind;
  const spell = models.spell ?? ((model: string) => model);
  const listed = new Set(names.map(spell));
  const missing = asked?.filter(({ model }) => !listed.has(spell(model))) ?? [];
  const unchecked =
    models.public && !models.keyPath && provider.apiKey ? " Its list is public, so the key is not checked." : "";
  const there = (asked?.length ?? 0) - missing.length;
  const has = asked && asked.length > 0 ? ` and has ${there} of ${asked.length} routed models` : "";
  return [
    ok(aboutProvider(id), `it answers as ${provider.kind.name}${has}.${unchecked}`),
    ...missing.map(({ model, routes }) =>
      models.incomplete
        ? warn(
            "models",
            `model: ${routes.join(", ")}: ${id} does not list ${model}. A server with one model answers with it all the same.`,
          )
        : missingModel(id, { model, routes }),
    ),
  ];
}

function missingModel(id: string, { model, routes }: Pick<Asked, "model" | "routes">, what = "model"): Finding {
  return fail(
    "models",
    `model: ${routes.join(", ")}: ${id} has no ${what} ${model}. Correct provider_model of the route, or disable the route.`,
  );
}

/** Makes one minimal call for each model of a provider that has no list of models. The calls cost a few tokens. */
async function callModels(named: Named, { asked, signal }: Question): Promise<Finding[]> {
  const about = aboutProvider(named.id);
  if (asked === undefined) return [unseen(about, "not asked: it has no list of models, and the routes are not known.")];
  if (asked.length === 0) return [unseen(about, "not asked: it has no list of models, and no route names one.")];
  const found = await Promise.all(
    asked.map(async (each) => judgeCall(named, { asked: each, reply: await call(named.provider, each, signal) })),
  );
  const faults = found.filter((finding) => finding !== undefined);
  // Removes duplicates, since a fault in the address or key repeats for each model.
  const distinct = [...new Map(faults.map((finding) => [finding.says, finding])).values()];
  const there = found.length - faults.length;
  const answered = ok(
    about,
    `it has no list, so each model got a call of one token: ${there} of ${found.length} answer.`,
  );
  if (there > 0 || distinct.every((finding) => finding.about === "models")) return [answered, ...distinct];
  const kind = await findKind(named.provider, signal);
  return kind ? [wrongKind(named, kind)] : distinct;
}

function call(provider: Provider, { endpoint, model }: Asked, signal: AbortSignal): Promise<Reply> {
  const bodies: Record<Endpoint, object> = {
    chat: { model, messages: [{ role: "user", content: "." }], [provider.kind.outputLimit]: 1 },
    // The minimum that OpenAI accepts (https://platform.openai.com/docs/api-reference/responses/create).
    responses: { model, input: ".", max_output_tokens: 16 },
    messages: { model, messages: [{ role: "user", content: "." }], max_tokens: 1 },
    count_tokens: { model, messages: [{ role: "user", content: "." }] },
    embeddings: { model, input: "." },
    speech: { contents: [{ parts: [{ text: "." }] }] },
  };
  return ask({ ...createModelAddress(provider, { endpoint, model }), body: bodies[endpoint] }, signal);
}

/**
 * Errors about the model: Azure's 404 `DeploymentNotFound`, Perplexity's 400 `invalid_model`, OpenAI's 404
 * `model_not_found`, Bedrock's 400 "The provided model identifier is invalid".
 */
const namesModel =
  /DeploymentNotFound|invalid_model|model_not_found|model[^"]{0,200}(invalid|not found|does not exist|not supported|isn't supported)/i;

function judgeCall(named: Named, { asked, reply }: { asked: Asked; reply: Reply }): Finding | undefined {
  const fault = judgeReply(named, reply);
  if (fault || "failed" in reply) return fault;
  const { status, text, json, isPage } = reply;
  const what = named.provider.kind.name === "azure" ? "deployment" : "model";
  if (status >= 400 && !isPage && namesModel.test(text)) return missingModel(named.id, asked, what);
  // A model that rejects the test call's small token limit still exists.
  if (status === 400 || status === 422) return isPage ? notThere(named, reply, undefined) : undefined;
  const answered = status === 200 && typeof json === "object" && json !== null;
  return answered && ["choices", "output", "data"].some((member) => member in json)
    ? undefined
    : notThere(named, reply, undefined);
}
