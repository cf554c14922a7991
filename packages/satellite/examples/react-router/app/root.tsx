import { Links, Meta, Outlet, Scripts, ScrollRestoration } from "react-router";
import { satellite } from "./satellite.server";

export const middleware = [satellite.middleware];

export default function Root() {
  return (
    <html lang="en">
      <head>
        <meta charSet="utf-8" />
        <Meta />
        <Links />
      </head>
      <body>
        <Outlet />
        <ScrollRestoration />
        <Scripts />
      </body>
    </html>
  );
}
