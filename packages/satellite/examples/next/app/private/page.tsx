import { satellite } from "../../satellite";

export default async function Private() {
  await satellite.requireUser();
  return (
    <main>
      <account-menu></account-menu>
      <script type="module" src="/account-menu.js" />
    </main>
  );
}
