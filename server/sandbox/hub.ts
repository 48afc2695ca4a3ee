/** The only account of the stand-in HubSpot, and the person who is signed in to it. */
export const standInHub = {
  hubId: 4_200_001,
  userId: 7_700_001,
  domain: 'acme-stand-in.example',
  user: 'sam@acme-stand-in.example',
  appId: 1_000_001,
}
