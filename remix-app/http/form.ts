import { problem } from "./problem.ts";
import { redirectTarget, type TargetContext } from "./redirect-target.ts";

const formTypes = /^(application\/x-www-form-urlencoded|multipart\/form-data)\s*(;|$)/i;
/**
 * Accepts only plain names. The form library reads paths and array indices from names (`email[99999999]` becomes an
 * array of that length), and instructions from `__intent__` and similar names.
 */
const plainName = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;
/** Defaults for pages that set no limit of their own. The whole body is limited anyway. */
const usual = { fields: 50, valueLength: 8_192 } as const;

/** Returns whether a request's content type is that of a form. */
export function isForm(request: Request): boolean {
  return formTypes.test(request.headers.get("content-type") ?? "");
}

/**
 * Reads the form that a request posts.
 * @throws Response 415 if its content type isn't a form's
 * @throws Response 400 if its body can't be parsed, has too many fields, repeats a field or has a field name that isn't
 * plain. Also if a value is too long, contains a NUL byte (which databases refuse), or is a file that `files` doesn't
 * allow.
 * @throws Response 409 if the form comes from the page of another account than the one that is signed in now
 */
export async function readForm(
  request: Request,
  context: PageContext,
  {
    maxValueLength = usual.valueLength,
    maxFields = usual.fields,
    files = false,
  }: { maxValueLength?: number; maxFields?: number; files?: boolean } = {},
): Promise<FormData> {
  const { requestId } = context;
  if (!isForm(request)) {
    const detail = "Send the body as a form, with Content-Type: application/x-www-form-urlencoded.";
    throw problem("UNSUPPORTED_MEDIA_TYPE", { requestId, detail });
  }
  const form = await request.formData().catch(() => null);
  const names = [...(form?.keys() ?? [])];
  const plain = names.length <= maxFields && names.every((name) => plainName.test(name));
  const isText = (value: FormDataEntryValue) =>
    typeof value === "string" ? value.length <= maxValueLength && !value.includes("\0") : files;
  if (!form || !plain || new Set(names).size < names.length || ![...form.values()].every(isText)) {
    throw problem("INVALID_REQUEST", { requestId, detail: "The form couldn’t be read." });
  }
  const pageAccount = form.get(pageAccountField);
  form.delete(pageAccountField);
  if (pageAccount !== null) requirePageAccount(context, { request, pageAccount: String(pageAccount) });
  return form;
}

/**
 * Requires that a form comes from the signed-in account's page. Call this function before checking the user's access,
 * so that a form from another account's page gets the 409 and not a refusal of access. The form can still be read
 * afterwards.
 * @throws Response 409 like {@link readForm}
 */
export async function requireFormAccount(context: PageContext, request: Request): Promise<void> {
  if (request.method !== "POST" || !isForm(request)) return;
  const form = await request
    .clone()
    .formData()
    .catch(() => null);
  const pageAccount = form?.get(pageAccountField);
  if (typeof pageAccount === "string") requirePageAccount(context, { request, pageAccount });
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
