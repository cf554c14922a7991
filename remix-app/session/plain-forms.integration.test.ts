import { afterAll, expect, test } from "vitest";
import { confirmationLink, linkOfMail } from "../../e2e/mailbox.ts";
import { createPerson, deletePerson, enter, type Person, passMailPause, query } from "../../scripts/test/people.ts";
import { createHelper } from "../../scripts/test/recovery-help.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openPlainTab, type PlainTab } from "../testing/plain-tab.ts";

/** The journeys of an account in a browser without JavaScript. The browser tests make the same ones with JavaScript. */
const { base } = readStack();
const people: Person[] = [];
const helper = createHelper();

afterAll(async () => {
  await (await helper).leave();
  for (const person of people) await deletePerson(person);
  await query("delete from auth.users where email like $1", ["plain-%@integration.gatehouse.test"]);
});

const newEmail = () => `plain-${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;

async function newPerson(): Promise<Person> {
  const person = await createPerson();
  people.push(person);
  // A link used in the same second as the confirmation counts as the confirmation link.
  await query("update auth.users set email_confirmed_at = now() - interval '1 hour' where id = $1", [person.id]);
  return person;
}

async function signIn(tab: PlainTab, { email, password }: Pick<Person, "email" | "password">, at = "/login") {
  await tab.open(at);
  tab.fill("Email", email);
  tab.fill("Password", password);
  await tab.press("Sign in");
}

const enterPlain = async (person: Person) => openPlainTab(base, await enter(person));

/** Links a provider account as if by a direct call to the identity backend, which bypasses our pages. */
async function linkDirectly({ id }: Person): Promise<void> {
  await query(
    `insert into auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
     values (gen_random_uuid()::text, $1, jsonb_build_object('sub', $1::uuid, 'email', 'somebody.else@mail.example'), 'google',
       now(), now(), now())`,
    [id],
  );
}

test("without JavaScript, a new person signs up, confirms by email, signs out and signs in", async () => {
  const newcomer = { email: newEmail(), password: "correct horse battery" };
  const tab = openPlainTab(base);
  await tab.open("/login?returnUrl=%2Fworkspaces");
  await tab.follow("Create an account");
  tab.fill("Email", newcomer.email);
  tab.fill("Password", newcomer.password);
  await tab.press("Create account");
  expect(tab.heading()).toBe("Check your email");
  expect(tab.words()).toContain(newcomer.email);
  expect(tab.path()).not.toContain("@");
  await signIn(tab, newcomer, "/login?returnUrl=%2Fworkspaces");
  expect(tab.words()).toContain("isn’t confirmed yet");
  const link = await confirmationLink(newcomer.email);
  await tab.browser.get(link);
  await tab.open(link);
  expect(tab.heading()).toBe("Confirm your email");
  await tab.press("Confirm and sign in");
  expect(tab.path()).toBe("/workspaces");
  await tab.press("Sign out");
  expect(tab.heading()).toBe("Sign in");
  await signIn(tab, newcomer);
  expect(tab.heading()).toBe("Home");
  await tab.open(link);
  expect(tab.heading()).toBe("This link no longer works");
});

test("without JavaScript, a weak password is rejected at its field, and the resent confirmation link keeps the destination", async () => {
  const email = newEmail();
  const tab = openPlainTab(base);
  await tab.open("/signup?returnUrl=%2Fworkspaces%3Ffrom%3Dinvitation");
  tab.fill("Email", email);
  tab.fill("Password", "seven77");
  await tab.press("Create account");
  expect(tab.errorOf("Password")).toContain("at least 8 characters");
  expect([tab.valueOf("Email"), tab.valueOf("Password")]).toEqual([email, ""]);
  tab.fill("Password", "correct horse battery");
  await tab.press("Create account");
  await confirmationLink(email);
  await passMailPause(email);
  await tab.press("Resend email");
  expect(tab.words()).toContain("If this address isn’t confirmed yet");
  await tab.open(await confirmationLink(email, { after: 1 }));
  await tab.press("Confirm and sign in");
  expect(tab.path()).toBe("/workspaces?from=invitation");
});

test("without JavaScript, a person who confirms an account in a different browser chooses a password", async () => {
  const email = newEmail();
  const elsewhere = openPlainTab(base);
  await elsewhere.open("/signup?returnUrl=%2Fworkspaces");
  elsewhere.fill("Email", email);
  elsewhere.fill("Password", "somebody else's password");
  await elsewhere.press("Create account");
  const tab = openPlainTab(base);
  await tab.open(await confirmationLink(email));
  await tab.press("Confirm and sign in");
  expect(tab.heading()).toBe("Choose your password");
  tab.fill("New password", "short");
  await tab.press("Change password");
  expect(tab.errorOf("New password")).toContain("at least 8 characters");
  tab.fill("New password", "correct horse battery");
  await tab.press("Change password");
  await tab.follow("Continue without reviewing");
  expect(tab.path()).toBe("/workspaces");
});

test("without JavaScript, a forgotten password is replaced through an email, and one button removes what others added", async () => {
  const member = await newPerson();
  const theirs = openPlainTab(base);
  await signIn(theirs, member);
  await linkDirectly(member);
  const tab = openPlainTab(base);
  await tab.open("/login");
  tab.fill("Email", member.email);
  tab.fill("Password", "half remembered");
  await tab.press("Forgot password?");
  expect(tab.path()).toBe("/forgot-password");
  expect(tab.valueOf("Email")).toBe(member.email);
  await tab.press("Send reset link");
  expect(tab.heading()).toBe("Check your email");
  await tab.open(await confirmationLink(member.email));
  await tab.press("Continue");
  expect(tab.heading()).toBe("Choose a new password");
  tab.fill("New password", "short");
  await tab.press("Change password");
  expect(tab.alert()).toContain("at least 8 characters");
  tab.fill("New password", "quite another password");
  await tab.press("Change password");
  expect(tab.heading()).toBe("Password changed");
  expect([tab.isChecked("Google: somebody.else@mail.example"), tab.isChecked(/^Password/)]).toEqual([true, false]);
  await tab.press("Remove selected and keep the rest");
  expect(tab.heading()).toBe("Home");
  await tab.open("/settings/security");
  expect(tab.texts("#linked-accounts").join()).not.toContain("somebody.else");
  await theirs.open("/workspaces");
  expect(theirs.heading()).toBe("Sign in");
});

test("without JavaScript, the owner reviews account access, but cannot remove every way to sign in", async () => {
  const member = await newPerson();
  const tab = await enterPlain(member);
  await linkDirectly(member);
  await tab.open("/settings/security");
  await tab.follow("Review account access");
  tab.check(/^Password/);
  await tab.press("Remove selected and keep the rest");
  expect(tab.alert()).toContain("Keep at least one way to sign in");
  expect(tab.isChecked(/^Password/)).toBe(true);
  tab.check(/^Password/, false);
  tab.check("Google: somebody.else@mail.example", false);
  await tab.press("Remove selected and keep the rest");
  expect(tab.texts("[role=status]").join(" ")).toContain("You reviewed account access");
  expect(tab.words()).toContain("somebody.else@mail.example");
  expect(tab.words()).not.toContain("Unconfirmed");
});

test("a person's only sign-in method cannot be unlinked", async () => {
  const member = await newPerson();
  await linkDirectly(member);
  const tab = await enterPlain(member);
  await tab.open("/settings/security");
  expect(tab.texts("#linked-accounts a").join()).toContain("Unlink");
  await query("delete from auth.identities where user_id = $1 and provider = 'email'", [member.id]);
  await query("update auth.users set encrypted_password = '' where id = $1", [member.id]);
  await tab.open("/settings/security");
  expect(tab.texts("#linked-accounts")[0]).toContain("Your only way to sign in");
  expect(tab.texts("#linked-accounts a").join()).not.toContain("Unlink");
});

test("without JavaScript, a banned member regains access through an emailed link", async () => {
  const member = await newPerson();
  await query("update auth.users set banned_until = now() + interval '1 day' where id = $1", [member.id]);
  const { send, override } = await helper;
  await send(member.email, await override(member.email, { normalLogin: false }));
  const tab = openPlainTab(base);
  await signIn(tab, member);
  expect(tab.alert()).toContain("don’t match an account");
  await tab.open(await linkOfMail(member.email, "Get back into your Gatehouse account"));
  await tab.press(/^Continue as /);
  expect(tab.heading()).toBe("Review account access");
  await tab.press("Remove selected and keep the rest");
  expect(tab.heading()).toBe("Home");
});

test("without JavaScript, a recovery code can be corrected, and leads to the destination", async () => {
  const member = await newPerson();
  const { send, override } = await helper;
  const { code } = await send(member.email, await override(member.email));
  const tab = openPlainTab(base);
  await tab.open("/auth/recovery?next=%2Fworkspaces");
  tab.fill("Email", member.email);
  tab.fill("6-digit code", code === "000000" ? "000001" : "000000");
  await tab.press("Sign in");
  expect(tab.alert()).toContain("That email and code don’t match");
  expect([tab.valueOf("Email"), tab.valueOf("6-digit code")]).toEqual([member.email, ""]);
  tab.fill("6-digit code", code);
  await tab.press("Sign in");
  await tab.press("Remove selected and keep the rest");
  expect(tab.path()).toBe("/workspaces");
});

test("without JavaScript, an email address changes only after both mailboxes confirm", async () => {
  const [member, renewed] = [await newPerson(), newEmail()];
  const tab = await enterPlain(member);
  await tab.open("/settings/profile");
  await tab.follow("Change email");
  tab.fill("New email", "not-an-email");
  await tab.press("Change email");
  expect(tab.errorOf("New email")).toContain("Enter an email address");
  tab.fill("New email", renewed);
  await tab.press("Change email");
  expect(tab.texts("#email")[0]?.match(/Not confirmed yet/g)).toHaveLength(2);
  await tab.open(await confirmationLink(renewed));
  expect(tab.words()).toContain(`This link confirms ${renewed}.`);
  await tab.press("Confirm");
  expect(tab.heading()).toBe("One more confirmation");
  await tab.open("/settings/profile");
  expect(tab.texts("#email dd").toSorted()).toEqual(["Confirmed", "Not confirmed yet"]);
  // The other mailbox may be open in a browser that is not signed in.
  const elsewhere = openPlainTab(base);
  await elsewhere.open(await confirmationLink(member.email));
  await elsewhere.press("Confirm");
  expect(elsewhere.heading()).toBe("Email changed");
  await tab.open("/settings/profile");
  expect(tab.texts("#email")[0]).toContain(renewed);
});

test("without JavaScript, canceling an email change invalidates its links", async () => {
  const [member, renewed] = [await newPerson(), newEmail()];
  const tab = await enterPlain(member);
  await tab.open("/settings/profile/email");
  tab.fill("New email", renewed);
  await tab.press("Change email");
  const link = await confirmationLink(renewed);
  await tab.press("Cancel email change");
  expect(tab.words()).toContain("Email change canceled.");
  await tab.open(link);
  expect(tab.heading()).toBe("This link no longer works");
  await tab.follow("Go to email settings");
  expect(tab.texts("#email")[0]).toContain(member.email);
});

test("without JavaScript, people edit their profile, and invalid input stays in the form", async () => {
  const tab = await enterPlain(await newPerson());
  await tab.open("/settings/profile");
  tab.fill("Name", "  Ada   Lovelace ");
  tab.fill(/^Profile picture URL/, "http://pictures.example/ada.png");
  await tab.press("Save");
  expect(tab.errorOf(/^Profile picture URL/)).toContain("begins with https://");
  expect(tab.valueOf("Name")).toContain("Ada");
  tab.fill(/^Profile picture URL/, "https://pictures.example/ada.png");
  await tab.press("Save");
  expect(tab.words()).toContain("Profile saved.");
  expect([tab.valueOf("Name"), tab.valueOf(/^Profile picture URL/)]).toEqual([
    "Ada Lovelace",
    "https://pictures.example/ada.png",
  ]);
  await tab.open("/settings/profile");
  expect(tab.words()).not.toContain("Profile saved.");
});

test("without JavaScript, changing a password signs other devices out", async () => {
  const member = await newPerson();
  const [tab, elsewhere] = [await enterPlain(member), await enterPlain(member)];
  await tab.open("/.well-known/change-password");
  tab.fill("New password", "short");
  await tab.press("Change password");
  expect(tab.alert()).toContain("at least 8 characters");
  expect(tab.valueOf("New password")).toBe("");
  tab.fill("New password", "quite another password");
  await tab.press("Change password");
  expect(tab.words()).toContain("Password changed.");
  expect(tab.texts("#activity li").join()).toContain("Changed the password");
  await elsewhere.open("/workspaces");
  expect(elsewhere.heading()).toBe("Sign in");
});

test("without JavaScript, a device signs out one other device, then all others, and pages through the activity", async () => {
  const member = await newPerson();
  const others = [openPlainTab(base), openPlainTab(base), openPlainTab(base)];
  for (const other of others) await signIn(other, member);
  const tab = openPlainTab(base);
  await signIn(tab, member, "/login?returnUrl=%2Fsettings%2Fsecurity");
  const devices = () => tab.texts("#sessions li").length;
  expect(devices()).toBe(4);
  expect(tab.texts("#sessions li").map((line) => [line.includes("This device"), line.includes("Sign out")])).toEqual([
    [true, false],
    ...others.map(() => [false, true]),
  ]);
  await tab.press(/^Sign out (?!all|of)./);
  expect(tab.words()).toContain("Device signed out.");
  expect(devices()).toBe(3);
  await tab.press("Sign out all others");
  expect(tab.words()).toContain("All other devices are signed out.");
  expect(tab.buttons()).not.toContain("Sign out all others");
  for (const other of others) {
    await other.open("/workspaces");
    expect(other.heading()).toBe("Sign in");
  }
  await tab.open("/settings/security/activity?limit=3");
  expect(tab.texts("main time[title$=UTC]")).toHaveLength(3);
  expect(tab.texts("nav a")).not.toContain("Newest");
  await tab.follow("Older");
  expect(tab.texts("main time")).not.toEqual([]);
  expect(tab.texts("nav a")).not.toContain("Older");
  await tab.follow("Newest");
  expect(tab.texts("nav a")).not.toContain("Newest");
});

test("without JavaScript, two accounts are added, switched and signed out one by one", async () => {
  const [member, colleague] = [await newPerson(), await newPerson()];
  const tab = openPlainTab(base);
  const active = async () => {
    const { status, text } = await tab.browser.get("/api/v1/auth/session");
    return status === 200 ? JSON.parse(text).user.email : null;
  };
  await signIn(tab, member);
  await tab.follow("Add another account");
  expect(tab.words()).toContain(`You’ll stay signed in as ${member.email}.`);
  await tab.follow("Create an account");
  expect(tab.heading()).toBe("Create an account");
  await signIn(tab, colleague, "/add-account");
  expect(await active()).toBe(colleague.email);
  await tab.open("/settings/profile");
  await tab.press(new RegExp(`^Switch to .*${member.email}$`));
  expect(await active()).toBe(member.email);
  await tab.press(new RegExp(`^Switch to .*${colleague.email}$`));
  // A switch to an account reopens the page that the account was last on.
  expect(tab.path()).toBe("/settings/profile");
  await tab.press("Sign out of this account");
  expect(await active()).toBe(member.email);
  await tab.press("Sign out");
  expect(tab.heading()).toBe("Sign in");
  expect(await active()).toBeNull();
});

test("without JavaScript, the color scheme is chosen on any page and kept", async () => {
  const tab = openPlainTab(base);
  const pressed = () => tab.texts("button[aria-pressed=true]");
  await tab.open("/login?returnUrl=%2Fworkspaces");
  await tab.press("Dark");
  expect([tab.path(), pressed()]).toEqual(["/login?returnUrl=%2Fworkspaces", ["Dark"]]);
  await tab.open("/signup");
  expect(pressed()).toEqual(["Dark"]);
  await tab.press("System");
  expect(pressed()).toEqual(["System"]);
});

test("without JavaScript, a passkey is renamed and deleted", async () => {
  const member = await newPerson();
  await query(
    `insert into auth.webauthn_credentials (user_id, credential_id, public_key, friendly_name)
     values ($1, decode(md5(random()::text), 'hex'), '', 'Laptop')`,
    [member.id],
  );
  const tab = await enterPlain(member);
  await tab.open("/settings/security");
  await tab.follow("Rename Laptop");
  tab.fill("Name", " ");
  await tab.press("Rename passkey");
  expect(tab.errorOf("Name")).not.toBe("");
  tab.fill("Name", "Ada’s key");
  await tab.press("Rename passkey");
  await tab.follow("Delete Ada’s key");
  await tab.press("Delete passkey");
  expect(tab.texts("#passkeys")[0]).toContain("No passkeys yet");
});

test("the sign-in and security pages say that passkeys need JavaScript", async () => {
  const tab = await enterPlain(await newPerson());
  await tab.open("/settings/security/passkeys/new");
  expect(tab.texts("#passkey-note noscript").join()).toContain("Turn on JavaScript to add a passkey.");
  await tab.open("/add-account");
  expect(tab.texts("#passkey-note noscript").join()).toContain("Turn on JavaScript to use passkeys.");
});
