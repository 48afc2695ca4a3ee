/** The only account of the stand-in HubSpot, and the person who is signed in to it. */
export const standInHub = {
  hubId: 4_200_001,
  userId: 7_700_001,
  domain: 'acme-stand-in.example',
  user: 'sam@acme-stand-in.example',
  appId: 1_000_001,
}

export const standInOwner = {
  id: '4001',
  type: 'PERSON',
  firstName: 'Alex',
  lastName: 'Rivera',
  email: 'alex.rivera@stand-in.example',
  userId: standInHub.userId,
  archived: false,
}

export const standInPipelines = [
  {
    id: 'default',
    label: 'Sales pipeline',
    stages: [
      stage('appointmentscheduled', 'Appointment scheduled', '0.2', 'false'),
      stage('qualifiedtobuy', 'Qualified to buy', '0.4', 'false'),
      stage('presentationscheduled', 'Presentation scheduled', '0.6', 'false'),
      stage('contractsent', 'Contract sent', '0.9', 'false'),
      stage('closedwon', 'Closed won', '1.0', 'true'),
      stage('closedlost', 'Closed lost', '0.0', 'true'),
    ],
  },
]

function stage(id: string, label: string, probability: string, isClosed: string) {
  return { id, label, metadata: { probability, isClosed } }
}
