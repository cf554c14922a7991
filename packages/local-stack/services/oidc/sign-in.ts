import type { IncomingMessage } from "node:http";
import type Provider from "oidc-provider";
import { errors, type KoaContextWithOIDC } from "oidc-provider";
import { errorPage, signInPage, type Title } from "./page.ts";
import { demoPeople, type People, signInForm } from "./people.ts";

const maxFormBytes = 8 * 1024;

/** Returns the path of the sign-in page, below the provider's own URL. */
export const signInPath = (uid: string) => `/sign-in/${uid}`;

type Context = Pick<KoaContextWithOIDC, "req" | "res" | "path" | "method" | "status" | "body" | "set">;

/** Serves the sign-in page of the current request, as identified by its cookie, and handles the page's form. */
export function signInPages({
  provider,
  people,
  mountPath,
  company,
}: { provider: Provider; people: People; mountPath: string } & Title) {
  return async (ctx: Context, next: () => Promise<unknown>) => {
    if (!ctx.path.startsWith(signInPath(""))) return next();
    const details = await provider.interactionDetails(ctx.req, ctx.res).catch((error: unknown) => {
      if (error instanceof errors.SessionNotFound) return undefined;
      throw error;
    });
    const action = mountPath + ctx.path;
    if (!details || ctx.path !== signInPath(details.uid)) return show(ctx, 400, errorPage("It has expired."));
    const hint = String(details.params.login_hint ?? "");
    if (ctx.method !== "POST") return show(ctx, 200, signInPage({ action, email: hint, company }));

    const form = await readForm(ctx.req);
    if (!form) return show(ctx, 413, errorPage("The form is too long."));
    const answer = form.cancel
      ? { error: "access_denied", error_description: "The sign-in was cancelled" }
      : readPerson(form);
    if (typeof answer === "string") {
      return show(ctx, 422, signInPage({ action, email: form.email ?? "", error: answer, company }));
    }
    ctx.status = 303;
    ctx.set("Location", await provider.interactionResult(ctx.req, ctx.res, answer));
  };

  /** Reads the person from the form. @returns the result for the provider, or an error message for the form */
  function readPerson(form: Record<string, string>) {
    const demoPerson = demoPeople.get(form.person ?? "");
    const parsed = demoPerson ? { success: true as const, data: demoPerson } : signInForm.safeParse(form);
    if (parsed.success) return { login: { accountId: people.admit(parsed.data) } };
    return parsed.error.issues[0]?.message ?? "Enter an address";
  }
}

async function show(ctx: Context, status: number, page: ReturnType<typeof errorPage>): Promise<void> {
  const { headers, body } = await page;
  ctx.status = status;
  ctx.set(headers);
  ctx.body = body;
}

/** Reads a form's fields. @returns undefined if the form is too long */
async function readForm(request: IncomingMessage): Promise<Record<string, string> | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += (chunk as Buffer).length;
    if (bytes <= maxFormBytes) chunks.push(chunk as Buffer);
  }
  if (bytes > maxFormBytes) return undefined;
  return Object.fromEntries(new URLSearchParams(Buffer.concat(chunks).toString()));
}
