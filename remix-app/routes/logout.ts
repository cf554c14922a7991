import { type ActionFunctionArgs, redirect } from "@remix-run/server-runtime";

/** Signs out: revokes the session at the identity backend and takes every variant of its cookie from the browser. */
export async function action({ context }: ActionFunctionArgs) {
  const { session, requestId } = context;
  if (session.auth.status === "authenticated") {
    const { error } = await session.authClient().auth.signOut({ scope: "local" });
    if (error) console.error(`warning request=${requestId} the session was not revoked: ${error.code ?? error.name}`);
  }
  session.clear();
  throw redirect("/login");
}
