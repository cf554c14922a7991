import type { LoaderFunctionArgs } from "react-router";
import { satellite } from "../satellite.server";

export async function loader(args: LoaderFunctionArgs) {
  await satellite.requireUser(args);
  return null;
}

export default function Private() {
  return (
    <main>
      <account-menu suppressHydrationWarning />
      <script type="module" src="/account-menu.js" />
    </main>
  );
}
