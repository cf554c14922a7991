import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";

/** A request that Supabase's Management API did not carry out. The message says what to do. */
export class ManagementApiError extends Error {}

export interface ManagementApi {
  get<Schema extends z.ZodType>(path: string, schema: Schema): Promise<z.output<Schema>>;
  /** Changes a setting. Sent again after a failure, so the body must be the whole outcome, not a difference. */
  put(method: "PATCH" | "POST", path: string, body: unknown): Promise<unknown>;
  /** Creates an object. Not sent again unless the API says that it did nothing. */
  create(path: string, body: unknown): Promise<unknown>;
}

const defaultAddress = "https://api.supabase.com";
const tokensPage = "https://supabase.com/dashboard/account/tokens";
const requestLimitMs = 60_000;
const maxAttempts = 4;
/** A rate-limit window of the API: https://supabase.com/docs/reference/api/introduction */
const maxWaitSeconds = 60;

const profile = z.object({ api_url: z.url() });
const apiFault = z.object({
  message: z.union([z.string(), z.array(z.string()).transform((lines) => lines.join("; "))]),
});

/** Returns the API's address: Supabase's, or that of the JSON profile for its command line (SUPABASE_PROFILE). */
export function managementApiAddress({ SUPABASE_PROFILE: file }: NodeJS.ProcessEnv): string {
  return file?.endsWith(".json") ? profile.parse(JSON.parse(readFileSync(file, "utf8"))).api_url : defaultAddress;
}

export function createManagementApi(options: {
  token: string;
  address: string;
  wait?: (milliseconds: number) => Promise<unknown>;
}): ManagementApi {
  return {
    get: async (path, schema) => {
      const read = schema.safeParse(await request({ ...options, method: "GET", path, isRepeatable: true }));
      if (read.success) return read.data;
      const [issue] = read.error.issues;
      throw new ManagementApiError(`GET ${path}: unexpected response at ${issue?.path.join(".") || "its root"}.`);
    },
    put: (method, path, body) => request({ ...options, method, path, body, isRepeatable: true }),
    create: (path, body) => request({ ...options, method: "POST", path, body, isRepeatable: false }),
  };
}

type Request = Parameters<typeof createManagementApi>[0] & {
  method: string;
  path: string;
  body?: unknown;
  isRepeatable: boolean;
};

async function request({ token, address, wait = sleep, method, path, body, isRepeatable }: Request): Promise<unknown> {
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(`${address}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(requestLimitMs),
    }).catch(() => null);
    if (response?.ok) return response.json().catch(() => undefined);
    // With 429 the API did nothing. After a 5xx or without a response it may have.
    const isLimited = response?.status === 429;
    const mayRepeat = isLimited || (isRepeatable && (!response || response.status >= 500));
    if (!mayRepeat || attempt === maxAttempts) throw await faultOf(response, { address, method, path });
    await wait(1_000 * (isLimited ? secondsToWait(response.headers) : 2 ** (attempt - 1)));
  }
}

/** Reads when to try again from `Retry-After`, or from the header that the API documents. */
function secondsToWait(headers: Headers): number {
  const seconds = Number(headers.get("retry-after") ?? headers.get("x-ratelimit-reset") ?? maxWaitSeconds);
  return seconds >= 0 ? Math.min(seconds, maxWaitSeconds) : maxWaitSeconds;
}

async function faultOf(
  response: Response | null,
  { address, method, path }: Pick<Request, "address" | "method" | "path">,
): Promise<ManagementApiError> {
  const what = `${method} ${path}`;
  if (!response) return new ManagementApiError(`${what}: ${new URL(address).host} does not answer. Try again.`);
  const fault = apiFault.safeParse(await response.json().catch(() => undefined));
  const reason = fault.success ? ` The API says: ${fault.data.message.slice(0, 400)}` : "";
  return new ManagementApiError(`${what}: ${adviceFor(response.status)}${reason}`);
}

function adviceFor(status: number): string {
  if (status === 401) return `the API refuses SUPABASE_ACCESS_TOKEN (401). Create another: ${tokensPage}`;
  if (status === 402) return "the project's plan lacks this (402).";
  if (status === 403) return "the token's account may not do this (403). Use an owner's or administrator's token.";
  if (status === 404) return "not found (404). Check the project's reference, and whose token it is.";
  if (status === 429) return "the API's rate limit is exceeded (429). Try again in a minute.";
  if (status >= 500) return `the API failed (${status}). Try again.`;
  return `the API refuses the request (${status}).`;
}
