# Takes a new image: the one that the settings in install.rsc name or find (remove the old tar first). Configuration, keys and network stay; the mesh is away
# for as long as it takes to unpack, and comes back by itself.
# Copy the new tar, install.rsc and this file to the router, then:  /import file-name=update.rsc
:global wattleMode "update"
/import file-name=install.rsc
