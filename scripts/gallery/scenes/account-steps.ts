import { arrive, press, type Scene, whose } from "../define-states.ts";

/** Adds a passkey with the browser's virtual authenticator, which answers immediately. */
export async function addPasskey({ page }: Scene): Promise<void> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  await page.goto("/settings/security/passkeys/new");
  await press(page, "Add passkey");
  await page.waitForURL((url) => url.hash === "#passkeys");
}

/** Links a provider account. */
export async function link({ page, world }: Scene): Promise<void> {
  await page.goto("/settings/security");
  await press(page, "Link Google account");
  await page.getByLabel("Email").fill(`robin.${crypto.randomUUID().slice(0, 6)}@gmail.example`);
  await press(page, "Continue");
  await page.waitForURL((url) => url.origin === world.base);
}

/** Adds everything that the security page can list. */
export async function fillSecurityPage(scene: Scene): Promise<void> {
  const person = whose(scene);
  await addPasskey(scene);
  await link(scene);
  await Promise.all([1, 2].map(() => scene.world.signIn(person)));
  // Sets the place that a proxy's headers would provide.
  await scene.world.query("update public.security_events set place = 'Porto, Portugal' where user_id = $1", [
    person.id,
  ]);
  await scene.page.reload();
}

/** Links a provider account and adds a passkey by direct calls of the identity backend. */
export async function addDirectly(scene: Scene): Promise<void> {
  const { id } = whose(scene);
  const { query } = scene.world;
  await query(
    `insert into auth.identities
       (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
     values (gen_random_uuid()::text, $1::uuid, jsonb_build_object('sub', $1::text, 'email', 'somebody.else@mail.example'),
       'google', now(), now(), now())`,
    [id],
  );
  await query(
    `insert into auth.webauthn_credentials (user_id, credential_id, public_key, friendly_name)
     values ($1, decode(md5(random()::text), 'hex'), '', 'iCloud Keychain')`,
    [id],
  );
  await scene.page.reload();
}

/** Signs in to the satellite, and lets an app use AI in the account's own workspace. */
export async function connectApps(scene: Scene): Promise<void> {
  const { page, world } = scene;
  await page.goto(`${world.satellite}/sign-in`);
  await page
    .getByRole("button", { name: /^Continue as/ })
    .first()
    .click();
  await page.getByText("Signed in as").waitFor();
  await world.connectApp(whose(scene), await world.ownWorkspace(whose(scene)));
  await page.goto("/settings/security/apps");
}

export async function askToDisconnect(scene: Scene): Promise<void> {
  await connectApps(scene);
  await scene.page.getByRole("link", { name: /^Disconnect Sitzung/ }).click();
  await arrive(scene.page, /^Disconnect Sitzung/);
}

/**
 * Signs in to an OpenID client. If `isSignedIn` is false, revokes the login afterwards, so that only the consent
 * remains.
 */
export async function connectClient(scene: Scene, { isSignedIn = true } = {}): Promise<void> {
  await scene.world.connectClient(whose(scene), { isSignedIn });
  await scene.page.reload();
}

export async function askToDisconnectClient(scene: Scene): Promise<void> {
  await connectClient(scene);
  await scene.page.getByRole("link", { name: "Disconnect Field charts" }).click();
  await arrive(scene.page, "Disconnect Field charts?");
}

export async function askForEmailChange(scene: Scene): Promise<string> {
  const email = `robin.new.${crypto.randomUUID().slice(0, 6)}@northern-lights.example`;
  await scene.page.goto("/settings/profile/email");
  await scene.page.getByLabel("New email").fill(email);
  await press(scene.page, "Change email");
  await scene.page.getByText("Email change requested.").waitFor();
  return email;
}

export async function confirmHalf(scene: Scene): Promise<void> {
  const { page, world } = scene;
  await page.goto(await world.confirmationLink(await askForEmailChange(scene)));
  await press(page, "Confirm");
  await arrive(page, "One more confirmation");
}

export async function createWorkspace({ page }: Scene): Promise<void> {
  await page.goto("/workspaces");
  await page.getByLabel("Name").fill("Aurora");
  await press(page, "Create workspace");
  await page.getByText("Workspace: Aurora").waitFor();
}
