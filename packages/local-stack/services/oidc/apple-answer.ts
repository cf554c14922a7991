import type { KoaContextWithOIDC } from "oidc-provider";
import type { Person } from "./people.ts";

type Context = Pick<KoaContextWithOIDC, "response" | "body">;

/**
 * Adds `user` to a response that the browser posts, as Apple does at a person's first sign-in if the client asked for a
 * name.
 */
export function addAppleUser(ctx: Context, { name, email }: Person): void {
  if (typeof ctx.body !== "string" || !ctx.body.includes('<form method="post"')) return;
  const [firstName = "", ...rest] = name.split(" ");
  const user = JSON.stringify({ name: { firstName, lastName: rest.join(" ") }, email });
  const escaped = user.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
  ctx.body = ctx.body.replace("</form>", () => `<input type="hidden" name="user" value="${escaped}"/></form>`);
}
