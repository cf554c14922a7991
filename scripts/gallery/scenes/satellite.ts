import { press, refuse, type Scene, statesOf, whose } from "../define-states.ts";

/** Signs in to the satellite with the platform account. */
async function enter({ page, world }: Scene): Promise<void> {
  await page.goto(`${world.satellite}/sign-in`);
  await page
    .getByRole("button", { name: /^Continue as/ })
    .first()
    .click();
  await page.getByText("Signed in as").waitFor();
}

async function ofWorkspace(scene: Scene): Promise<string> {
  await enter(scene);
  return `${scene.world.satellite}/w/${await scene.world.ownWorkspace(whose(scene))}`;
}

const home = ({ world }: Scene) => world.satellite;

/** Our own app on a separate origin. */
export const satelliteStates = statesOf("Satellite", [
  ["Start, signed out", "satellite/home", "anonymous", home],
  [
    "Start",
    "satellite/home",
    "guest",
    async (scene) => {
      await enter(scene);
      return scene.world.satellite;
    },
  ],
  ["A workspace", "satellite/workspace", "guest", ofWorkspace],
  [
    "A workspace, nameless",
    "satellite/workspace",
    "guest",
    ofWorkspace,
    async ({ page }) => {
      await page.getByLabel("Name").fill(" ");
      await refuse(page, "Save name");
    },
  ],
  [
    "A workspace, renamed",
    "satellite/workspace",
    "guest",
    ofWorkspace,
    async ({ page }) => {
      await page.getByLabel("Name").fill("Field work");
      await press(page, "Save name");
      await page.getByText("Name changed").waitFor();
    },
  ],
  [
    "A link that another account made",
    "satellite/verify-token",
    "anonymous",
    async ({ world }) => world.handOver(await world.createAccount("Nadia Lind", "nadia.lind")),
  ],
  [
    "A link that was already used",
    "satellite/verify-token",
    "anonymous",
    async ({ world }) => world.useUp(await world.createAccount("Nadia Lind", "nadia.lind")),
  ],
  ["A link without a token", "satellite/verify-token", "anonymous", ({ world }) => `${world.satellite}/verify-token`],
]);
