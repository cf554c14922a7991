import { maxBodyBytes, readBody } from "./body-limit.ts";
import { parseMultipart } from "./multipart.ts";
import { problem } from "./problem.ts";
import { redirectTarget, type TargetContext } from "./redirect-target.ts";

const formTypes = /^(application\/x-www-form-urlencoded|multipart\/form-data)\s*(;|$)/i;
/**
 * Accepts only plain names. The form library reads paths and array indices from names (`email[99999999]` becomes an
 * array of that length), and instructions from `__intent__` and similar names.
 */
const plainName = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;
/** Defaults for pages that set no limit of their own. The whole body is limited anyway. */
const defaultLimits = { fields: 50, valueLength: 8_192 } as const;

/** Returns whether a request's content type is that of a form. */
export function isForm(request: Request): boolean {
  return formTypes.test(request.headers.get("content-type") ?? "");
}

/**
 * Reads the form that a request posts. Routes decide beforehand whether the caller may use them.
 * @throws Response 415 if its content type isn't a form's
 * @throws Response 413 if its body exceeds `maxBytes`
 * @throws Response 400 if its body can't be parsed, has too many fields, repeats a field or has a field name that isn't
 * plain. Also if a value is too long, contains a NUL byte (which databases refuse), or is a file that `files` doesn't
 * allow.
 * @throws Response 409 if the form comes from the page of another account than the one that is signed in now
 */
export async function readForm(
  request: Request,
  context: PageContext,
  {
    maxBytes = maxBodyBytes,
    maxValueLength = defaultLimits.valueLength,
    maxFields = defaultLimits.fields,
    files = false,
  }: { maxBytes?: number; maxValueLength?: number; maxFields?: number; files?: boolean } = {},
): Promise<FormData> {
  const { requestId } = context;
  if (!isForm(request)) {
    const detail = "Send the body as a form, with Content-Type: application/x-www-form-urlencoded.";
    throw problem("UNSUPPORTED_MEDIA_TYPE", { requestId, detail });
  }
  const body = await readBody(request, { requestId, maxBytes });
  const fields = parseFields(body, { contentType: request.headers.get("content-type") ?? "", maxFields });
  const names = new Set(fields?.map(([name]) => name));
  const isValid = ([name, value]: [string, string | File]) =>
    plainName.test(name) &&
    (typeof value === "string" ? value.length <= maxValueLength && !value.includes("\0") : files);
  if (!fields || names.size < fields.length || !fields.every(isValid)) {
    throw problem("INVALID_REQUEST", { requestId, detail: "The form couldn’t be read." });
  }
  const form = new FormData();
  for (const [name, value] of fields) {
    if (typeof value === "string") form.append(name, value);
    else form.append(name, value, value.name);
  }
  const pageAccount = form.get(pageAccountField);
  form.delete(pageAccountField);
  if (pageAccount !== null) requirePageAccount(context, { request, pageAccount: String(pageAccount) });
  return form;
}

/**
 * Reads the texts of a form that another site posts. Names may be any text and may repeat.
 * @returns no fields if the content type isn't a form's
 * @throws Response 400 if the form can't be parsed, has a file or has more than 50 fields; 413 if it exceeds 64 KiB
 */
export async function readCrossOriginForm(request: Request, options: { requestId: string }): Promise<URLSearchParams> {
  if (!isForm(request)) return new URLSearchParams();
  const contentType = request.headers.get("content-type") ?? "";
  const fields = parseFields(await readBody(request, options), { contentType, maxFields: defaultLimits.fields });
  const isText = (field: [string, string | File]): field is [string, string] => typeof field[1] === "string";
  if (fields?.every(isText)) return new URLSearchParams(fields);
  throw problem("INVALID_REQUEST", { requestId: options.requestId, detail: "The form couldn’t be read." });
}

/** Parses a form's body, or returns null if it is malformed or has too many fields. Stops at the first one too many. */
function parseFields(
  body: Uint8Array<ArrayBuffer>,
  { contentType, maxFields }: { contentType: string; maxFields: number },
): [name: string, value: string | File][] | null {
  if (/^multipart/i.test(contentType)) return parseMultipart(body, { contentType, maxParts: maxFields });
  let fields = 1;
  for (let at = body.indexOf(ampersand); at >= 0; at = body.indexOf(ampersand, at + 1)) {
    if (++fields > maxFields) return null;
  }
  return [...new URLSearchParams(new TextDecoder().decode(body))];
}
const ampersand = 0x26;

/**
 * Requires that a form comes from the signed-in account's page. Call this function before refusing the user's access,
 * so that a form from another account's page gets the 409 and not a refusal of access. Skips large forms, because a
 * refusal must not take work whose size the sender chooses.
 * @throws Response 409 like {@link readForm}
 */
export async function requireFormAccount(context: PageContext, request: Request): Promise<void> {
  if (request.method !== "POST" || !isForm(request)) return;
  if (!(Number(request.headers.get("content-length") ?? Number.NaN) <= maxBodyBytes)) return;
  await readForm(request, context).catch((refusal) => {
    if (refusal instanceof Response && refusal.status === 409) throw refusal;
  });
}

// Another tab may switch accounts while a page is open, so the page's requests name the page's account.

/**
 * The form field that names the page's account (AccountForm). Forms that any account may send do not have this field.
 */
export const pageAccountField = "pageAccount";

/**
 * The header that names the page's account. Scripts send the header if another service defines the format of the
 * request's body, because such a body can't contain {@link pageAccountField}.
 */
export const pageAccountHeader = "X-Page-Account";

/** The parts of a request that identify its account. */
export interface PageContext extends TargetContext {
  requestId: string;
  session: {
    auth:
      | { status: "authenticated"; claims: { sub: string; email?: string | undefined } }
      | { status: "anonymous" | "unavailable" };
  };
}

/**
 * Requires that a request is sent by the account that its page belongs to.
 * @throws Response 409 if another account is signed in now; the response names the page, so that people can go back to
 * it
 */
export function requirePageAccount(
  context: PageContext,
  { request, pageAccount }: { request: Request; pageAccount: string },
): void {
  const { auth } = context.session;
  if (auth.status !== "authenticated" || pageAccount === auth.claims.sub) return;
  const { pathname } = new URL(request.url);
  const fallback = redirectTarget(pathname, { context, fallback: "/" });
  const page = redirectTarget(request.headers.get("referer"), { context, fallback });
  const active = auth.claims.email || "another account";
  const detail = `You’re now signed in as ${active}, but you sent this from another account’s page. Nothing was changed.`;
  throw problem("CONFLICT", { requestId: context.requestId, detail, members: { page } });
}
